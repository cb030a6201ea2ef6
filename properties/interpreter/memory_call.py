"""One call of a method of Triton's interpreter that loads, stores or exchanges elements of memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.interpreter import alignment
from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.threads import Threads
from cumae.properties.interpreter.watch import Watch

_INTEGER, _FLOAT, _HALF = 85, 2.0**60, 2.0**15
"""Values of undefined lanes: a small integer, which may end a loop, and a float above any other number."""
_BF16_BITS, _FP8_BITS = 0x5D80, 0x77
"""The bits of 2^60 in bf16, and of 240 in e4m3, or 28,672 in e5m2: such numbers are held as their bits."""


class Method(NamedTuple):
    """A method that accesses memory: the kind of access, and the positions of its arguments."""

    original: Callable[..., Any]
    kind: str
    pointer_at: int
    value_at: int | None
    mask_at: int | None


class MemoryCall:
    """A call of such a method: its arguments, lane by lane.

    ``pointers``: those of the kernel; ``addresses``: where these lie, uint64. ``live``: whether the mask lets
    a lane through; after ``keep_inside``, whether it also lies inside. ``reached``: the addresses of the live
    lanes, in one dimension. ``value``: the elements to store, None for a load.
    """

    __slots__ = ("_arguments", "_method", "_watch", "addresses", "live", "pointers", "reached", "value")

    def __init__(self, method: Method, arguments: list[Any], watch: Watch) -> None:
        self._method, self._arguments, self._watch = method, arguments, watch
        self.pointers = np.asarray(arguments[method.pointer_at].data)
        self.addresses = watch.pointers.unmade(self.pointers)
        self.live = _lanes_of(arguments, method.mask_at, self.addresses.shape)
        self.reached = self.addresses[self.live]
        self.value: Any = None

    def keep_inside(self) -> bool:
        """Record stray lanes and mask them off; return False if they cannot be, as the method has no mask."""
        watch, mask_at = self._watch, self._method.mask_at
        if watch.holds(self.reached):
            return True
        inside = watch.inside(self.pointers)
        if np.all(inside | ~self.live):
            return True
        watch.stray(self._method.kind, self.pointers[self.live & ~inside])
        if mask_at is None:
            return False
        self.live = self.live & inside
        self.reached = self.addresses[self.live]
        self._arguments[mask_at] = with_data(self._arguments[mask_at], self.live)
        return True

    def compared(self) -> Any:
        """Return the elements that an exchange compares with, as what it finds if it is not done."""
        compared = self._arguments[1]
        return type(compared)(np.asarray(compared.data), compared.dtype)

    def look_at_alignment(self, *, has_mask: bool) -> None:
        """Record an access that is not aligned, of elements or of a thread's vector."""
        element = self._arguments[self._method.pointer_at].get_element_ty()
        item = max(1, element.primitive_bitwidth // 8)
        alignment.look_at(
            self._watch, self._method.kind, self.addresses, self.reached, item, has_mask=has_mask
        )

    def resolve_pointers(self) -> None:
        """Replace pointers that a launch made from integers, in the place and in the value, by addresses."""
        arguments, (_, _, pointer_at, value_at, _) = self._arguments, self._method
        if self.addresses is not self.pointers:
            arguments[pointer_at] = with_data(arguments[pointer_at], self.addresses)
        if value_at is None:
            return
        if arguments[value_at].dtype.is_ptr():
            value = self._watch.pointers.unmade(arguments[value_at].data)
            arguments[value_at] = with_data(arguments[value_at], value)
        self.value = np.asarray(arguments[value_at].data)

    def is_deferred_by(self, threads: Threads) -> bool:
        """Return whether memory gets a store later; let threads meet where the access takes a barrier."""
        kind, semantic = self._method.kind, self._watch.semantic
        if kind == "store" and self.value is not None and not semantic:
            return threads.store(self.addresses, self.live, np.broadcast_to(self.value, self.live.shape))
        if kind != "load" or semantic:
            threads.meet()
        return False

    def answer(self, builder: Any) -> Any:
        """Return the answer of the original method; record what it found or changed, if that is kept."""
        watch, kind, value = self._watch, self._method.kind, self.value
        call = self._ordered()
        if not watch.keeps_accesses:
            return call(builder, *self._arguments)
        if value is None:
            answer = call(builder, *self._arguments)
            watch.loaded(self.reached, np.broadcast_to(answer.data, self.live.shape)[self.live])
            return answer
        before = watch.peek(self.reached, value.itemsize)
        answer = call(builder, *self._arguments)
        stored = np.broadcast_to(value, self.live.shape)[self.live] if kind == "store" else None
        synchronises = kind != "store" and "RELAXED" not in str(self._arguments[-2])
        watch.written(kind, self.reached, before, value.itemsize, stored, synchronises)
        return answer

    def _ordered(self) -> Callable[..., Any]:
        """Return the original method; an atomic of several lanes is reversed if orders are permuted."""
        original, kind, *places = self._method
        if kind != "atomic" or self._watch.order_seed is None or self.reached.size < 2:
            return original
        self._watch.lanes_reordered = True
        return _reversed(original, *places)

    def loaded(self, answer: Any) -> Any:
        """Return the answer of a load: undefined lanes filled, and as the program's threads see memory."""
        watch, live = self._watch, self.live
        # Of a load of one element, Triton's interpreter hands `other=0` on as None.
        if self._arguments[2] is None and live.size > 1 and not live.all():
            line = source_line()
            watch.undefined.add(line)
            if line in watch.filled:
                filler = _filler(answer.dtype, answer.data.dtype)
                answer = with_data(answer, np.where(live, answer.data, filler))
        if watch.threads is not None:
            answer = with_data(answer, watch.threads.load(self.addresses, live, answer.data))
        return answer


def with_data(handle: Any, data: Any) -> Any:
    """Return a handle of the same type over other data."""
    return type(handle)(data, handle.dtype)


def _lanes_of(arguments: list[Any], mask_at: int | None, shape: tuple[int, ...]) -> Any:
    """Return the lanes that a mask lets through, bool [*shape]; all of them if there is no mask."""
    if mask_at is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(arguments[mask_at].data, dtype=bool)
    return mask if mask.shape == shape else np.broadcast_to(mask, shape)


def _filler(kind: Any, held: Any) -> Any:
    """Return the value of an undefined lane of a type, as it is held.

    A large float is also seen by a kernel that takes a maximum.
    """
    scalar = kind.scalar
    if scalar.is_bf16():
        return np.asarray(_BF16_BITS).astype(held)
    if scalar.is_fp8():
        return np.asarray(_FP8_BITS).astype(held)
    if scalar.is_floating():
        return np.asarray(_HALF if scalar.is_fp16() else _FLOAT).astype(held)
    return np.asarray(_INTEGER).astype(held)


def _reversed(original: Callable[..., Any], *places: int | None) -> Callable[..., Any]:
    """Return an atomic that takes its lanes from the last to the first: a GPU may take them in any order."""

    def backwards(builder: Any, *args: Any) -> Any:
        arguments = list(args)
        shape = arguments[places[0] or 0].data.shape
        for at in places:
            if at is not None:
                turned = np.flip(np.broadcast_to(arguments[at].data, shape))
                arguments[at] = with_data(arguments[at], np.ascontiguousarray(turned))
        answer = original(builder, *arguments)
        return with_data(answer, np.ascontiguousarray(np.flip(answer.data)))

    return backwards
