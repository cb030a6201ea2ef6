"""Hooks around the interpreter's loads, stores and atomics: bounds, records, turns and threads."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cumae.properties.interpreter import alignment
from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.watch import Current

ACCESSES = {
    "create_masked_load": ("load", 0, None, 1),
    "create_masked_store": ("store", 0, 1, 2),
    "create_atomic_rmw": ("atomic", 1, 2, 3),
    "create_atomic_cas": ("exchange", 0, 2, None),
}
"""Methods that access memory: the kind, and the positions of pointers, values and mask."""
_WITHOUT_MASK = ("create_load", "create_store")
"""Methods that access every element of a block, by those with a mask."""
_ATOMIC = ("create_atomic_load", "create_atomic_store", "create_atomic_poll")
"""Methods of newer releases that go through the masked load and store."""
_MEET = ("barrier", "cat", "dot", "expand_dims", "gather", "histogram", "join", "reshape", "split", "trans")
"""Methods at which the threads of a program meet, or may: to compile them can take a barrier."""
_BF16 = 0x42AA
"""The bits of 85, as which bf16 numbers are held."""


def access_patches(builder: Any, now: Current) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield each patched method and its replacement."""
    for name, place in ACCESSES.items():
        yield (builder, name), _guarded(getattr(builder, name), *place, now)
    for name in _ATOMIC:
        if hasattr(builder, name):
            yield (builder, name), _atomic(getattr(builder, name), now)


def meeting_patches(builder: Any, interpreter: Any, now: Current) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield each method at which threads meet, and its replacement."""
    for name in (f"create_{word}" for word in _MEET):
        if hasattr(builder, name):
            yield (builder, name), _meeting(getattr(builder, name), now)
    reduced = interpreter.ReduceScanOpInterface
    yield (reduced, "apply"), _meeting(reduced.apply, now)


def _filler(kind: Any, held: Any) -> Any:
    """Return what stands in an undefined lane of a type: 85, or the fp8 number with the bits of 85."""
    return np.asarray(_BF16 if kind.scalar.is_bf16() else 85).astype(held)


def with_data(handle: Any, data: Any) -> Any:
    """Return a handle of the same type over other data."""
    return type(handle)(data, handle.dtype)


def _guarded(
    original: Callable[..., Any],
    kind: str,
    pointer_at: int,
    value_at: int | None,
    mask_at: int | None,
    now: Current,
) -> Any:
    places = (pointer_at, value_at, mask_at)

    def guarded(self: Any, *args: Any) -> Any:
        watch = now.watch
        if watch.turns is not None:
            watch.turns.before()
        arguments = list(args)
        pointers = np.asarray(arguments[pointer_at].data)
        addresses = watch.pointers.unmade(pointers)
        if mask_at is None:
            live = np.ones(addresses.shape, dtype=bool)
        else:
            live = np.asarray(arguments[mask_at].data, dtype=bool)
            live = live if live.shape == addresses.shape else np.broadcast_to(live, addresses.shape)
        watch.counts[kind] += 1
        reached = addresses[live]
        if reached.size:
            watch.early.access(kind, watch.program)
        inside = None if watch.holds(reached) else watch.inside(pointers)
        if inside is not None and not np.all(inside | ~live):
            watch.stray(kind, pointers[live & ~inside])
            if mask_at is None:
                return type(arguments[1])(np.asarray(arguments[1].data), arguments[1].dtype)
            live = live & inside
            reached = addresses[live]
            arguments[mask_at] = with_data(arguments[mask_at], live)
        if reached.size and (watch.pointers.any_cast or watch.hints.false):
            item = max(1, arguments[pointer_at].get_element_ty().primitive_bitwidth // 8)
            has_mask = sys._getframe(1).f_code.co_name not in _WITHOUT_MASK
            alignment.look_at(watch, kind, addresses, reached, item, has_mask=has_mask)
        if addresses is not pointers:
            arguments[pointer_at] = with_data(arguments[pointer_at], addresses)
        if value_at is not None and arguments[value_at].dtype.is_ptr():
            value = watch.pointers.unmade(arguments[value_at].data)
            arguments[value_at] = with_data(arguments[value_at], value)
        value = None if value_at is None else np.asarray(arguments[value_at].data)
        if watch.threads is not None:
            if kind == "store" and value is not None and not watch.semantic:
                if watch.threads.store(addresses, live, np.broadcast_to(value, live.shape)):
                    return None
            elif kind != "load" or watch.semantic:
                watch.threads.meet()
        if kind == "atomic" and watch.order_seed is not None and reached.size > 1:
            call = _backwards(original, *places)
            watch.lanes_reordered = True
        else:
            call = original
        if not watch.keeps_accesses:
            answer = call(self, *arguments)
        elif value is None:
            answer = call(self, *arguments)
            found = np.broadcast_to(answer.data, live.shape)
            watch.loaded(reached, found[live])
        else:
            before = watch.peek(reached, value.itemsize)
            answer = call(self, *arguments)
            stored = np.broadcast_to(value, live.shape)[live] if kind == "store" else None
            synchronises = kind != "store" and "RELAXED" not in str(arguments[-2])
            watch.written(kind, reached, before, value.itemsize, stored, synchronises)
        # Of a load of one element, Triton's interpreter hands `other=0` on as None.
        if kind == "load" and arguments[2] is None and live.size > 1 and not live.all():
            line = source_line()
            watch.undefined.add(line)
            if line in watch.filled:
                filled = np.where(live, answer.data, _filler(answer.dtype, answer.data.dtype))
                answer = with_data(answer, filled)
        if kind == "load" and watch.threads is not None:
            answer = with_data(answer, watch.threads.load(addresses, live, answer.data))
        if kind != "store":
            watch.read(addresses, live, answer.data)
            watch.pointers.loaded(answer.data)
        if watch.turns is None and watch.patience.ends(addresses, None if kind == "store" else answer.data):
            watch.waits()
        return answer

    return guarded


def _backwards(original: Callable[..., Any], *places: int | None) -> Callable[..., Any]:
    """Return an atomic that takes its lanes from the last to the first, as any order may be theirs."""

    def backwards(self: Any, *args: Any) -> Any:
        arguments = list(args)
        shape = arguments[places[0] or 0].data.shape
        for at in places:
            if at is not None:
                turned = np.flip(np.broadcast_to(arguments[at].data, shape))
                arguments[at] = with_data(arguments[at], np.ascontiguousarray(turned))
        answer = original(self, *arguments)
        return with_data(answer, np.ascontiguousarray(np.flip(answer.data)))

    return backwards


def _atomic(original: Callable[..., Any], now: Current) -> Any:
    def atomic(self: Any, *args: Any) -> Any:
        watch = now.watch
        watch.semantic = str(args[-2])
        try:
            return original(self, *args)
        finally:
            watch.semantic = ""

    return atomic


def _meeting(original: Callable[..., Any], now: Current) -> Any:
    def meeting(self: Any, *args: Any) -> Any:
        if now.watch.threads is not None:
            now.watch.threads.meet()
        return original(self, *args)

    return meeting
