"""One call of a kernel on one case: inputs up, outputs poisoned, launched, everything read back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import TENSORS, Held
from cumae.properties.operations import Expected
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.arena import Arena
from cumae.properties.running.binding import Binding
from cumae.properties.running.device import Device, interpreting
from cumae.properties.running.integrity import oracles_shut
from cumae.properties.running.interpreter import watching
from cumae.properties.running.memory import (
    GUARD_BYTES,
    Buffer,
    Words,
    hold,
    poison_words,
    poisoned,
    torch_dtype,
    view_of,
    words_of,
)
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.running.watch import Region, Watch, spans_of
from cumae.properties.targets import line_of

POISON = 0xA5
_PLAIN = (torch.Tensor, int)
"""Kinds of returned values: a subclass may compare and convert as it likes."""
COMPLEMENT = 0x5A


_WAYS_OUT = (SystemExit, pytest.skip.Exception, pytest.fail.Exception)
"""What leaves a function without an answer and is no ``Exception``: no run ends, or is skipped, by it."""


class KernelRaised(Exception):
    """The function under test raised on a valid case."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call did: ``outputs`` by name, damage outside elements, inputs changed, accesses outside.

    ``before``: what the memory of the outputs held before the call: poison, but for arguments that are
    input and output. ``opaque``: returned outputs whose memory could not be poisoned. ``dtypes``: of
    returned tensors; ``mistyped``: of which dtype those must be that have another one; ``shapes``: of which
    shape they must be, or flat.
    """

    outputs: dict[str, Words]
    before: dict[str, Words]
    damage: tuple[str, ...]
    watch: Watch | None
    poison: int
    opaque: frozenset[str] = frozenset()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    mistyped: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_misshapen(self) -> bool:
        """Whether something that was returned has more or fewer elements than it must have."""
        return any(self.outputs[name].size != prod(shape) for name, shape in self.shapes.items())


class Call:
    """The arguments of one call in memory of their own, or in that of an earlier call.

    Over an ``earlier`` call of the same function, buffers that fit stand at the same addresses and
    outputs start with what that call left in them. ``function``: the instance to call, of a class;
    ``room``: bytes that each buffer may grow to at its address.
    """

    def __init__(
        self,
        bench: "Bench",
        poison: int,
        earlier: "Call | None" = None,
        *,
        function: Callable[..., Any] | None = None,
        room: int = 0,
    ) -> None:
        self.function = function or bench.made()
        self._device = bench.device
        self.numbers, self.inputs, self.outputs = bench.buffers(poison)
        there = [buffer for buffer in (*self.inputs, *self.outputs) if not _is_host(buffer)]
        here = [buffer for buffer in self.inputs if _is_host(buffer)]
        self._parts = (there, here)
        self.reuses = earlier is not None and all(
            arena.holds(part) for arena, part in zip(earlier.arenas, self._parts, strict=True)
        )
        self.arenas: tuple[Arena, Arena]
        if earlier is not None and self.reuses:
            self.arenas = earlier.arenas
        else:
            self.arenas = (Arena(there, bench.device, room), Arena(here, "cpu", room))
        stale = [b.name for b in self.outputs if self.reuses and not bench.binding.is_in_place(b.name)]
        for arena, part in zip(self.arenas, self._parts, strict=True):
            arena.fill(part, stale=stale)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the function is called with."""
        return self.numbers | {buffer.name: buffer.tensor for buffer in (*self.inputs, *self.outputs)}

    def run(self) -> Any:
        """Call the function and wait for it. Raises ``KernelRaised`` with its error inside.

        On a GPU the stream it was called on is waited for: what it started elsewhere must have joined that.
        """
        try:
            with oracles_shut():
                answer = self.function(**self.arguments)
            if self._device == "cuda":
                torch.cuda.current_stream().synchronize()
        except (Exception, *_WAYS_OUT) as error:
            said = f"raised {type(error).__name__}: {error}"
            if "CUDA error" in said:
                said = said.splitlines()[0]  # the others are advice to who writes CUDA
            raise KernelRaised(f"{said}{line_of(error, self.function)}") from error
        return answer

    def given(self) -> Iterator[Region]:
        """Yield the memory of each tensor that the function was given, gaps of its strides included."""
        for buffer in (*self.inputs, *self.outputs):
            if buffer.tensor is not None:
                yield from spans_of(buffer.name, buffer.tensor)

    def collect(self) -> None:
        """Read back what memory holds now."""
        for arena, part in zip(self.arenas, self._parts, strict=True):
            arena.collect(part)
        if self._device == "cuda":
            torch.cuda.synchronize()  # what runs on other streams still must not reach the next call


class Bench:
    """A binding and a case on a device; observes calls and asks the oracle only after the first one.

    ``previous``: the step before, for functions that keep something.
    """

    def __init__(self, binding: Binding, case: Case, device: Device, previous: Case | None = None) -> None:
        self.binding = binding
        self.case = case
        self.device = device
        self._inputs = Inputs(case, previous)
        self._held: dict[str, Held] = {}

    def made(self) -> Callable[..., Any]:
        """Return the function, or a new instance of the class. Raises ``KernelRaised`` where it raises."""
        function = self.binding.function
        if not self.binding.keeps_state:
            return function
        values = {
            name: self.device if name == "device" else self.held(name) for name in self.binding.constructor
        }
        for name, value in values.items():
            if isinstance(value, TENSORS):
                raise ValueError(f"parameter = {name!r} of {function.__name__}, must be a host number")
        try:
            instance: Callable[..., Any] = function(**values)
        except Exception as error:
            raise KernelRaised(f"raised {type(error).__name__}: {error}") from error
        return instance

    def held(self, name: str) -> Held:
        """Return an input as the dialect holds it."""
        if name not in self._held:
            self._held[name] = self.binding.dialect.inputs[name].hold(self._inputs)
        return self._held[name]

    def expected(self) -> dict[str, Expected]:
        """Return what the oracle says of each output."""
        names = (*self.binding.outputs, *self.binding.returned)
        return self.binding.operation.expected(self._inputs, self.held, self.binding.dialect, names)

    def observe(
        self,
        poison: int = POISON,
        order_seed: int | None = None,
        *,
        races: bool = False,
        overflow: bool = False,
    ) -> Observation:
        """Call the function once on fresh buffers. Raises ``KernelRaised`` with its error inside."""
        allocated = FencedAllocations(poison)
        overflow = overflow or sanitizing() == "debug"
        watched = watching(order_seed, races=races, overflow=overflow) if interpreting() else nullcontext()
        with watched as watch:
            with allocated:
                function = self.made()
            call = Call(self, poison, function=function)
            if watch is not None:
                watch.follow(poison, lambda: (*self._poisoned(call), *allocated.poisoned()))
                watch.given = lambda: (*call.given(), *allocated.regions())
            with allocated:
                answer = call.run()
        return self.seen(call, answer, allocated, watch, poison)

    def _poisoned(self, call: Call) -> Iterator[Region]:
        """Yield the memory of the outputs that are not inputs too; those too large to keep are left out."""
        for buffer in call.outputs:
            if buffer.before is not None and not self.binding.is_in_place(buffer.name):
                assert buffer.tensor is not None
                start, item = buffer.tensor.data_ptr(), buffer.tensor.element_size()
                size = len(buffer.before) - 2 * GUARD_BYTES
                step = buffer.strides[0] if buffer.is_rows else buffer.strides[-1]
                yield Region(buffer.name, start, start + size, item, step)

    def seen(
        self, call: Call, answer: Any, allocated: FencedAllocations, watch: Watch | None, poison: int = POISON
    ) -> Observation:
        """Read back what a call did."""
        call.collect()
        words = {buffer.name: buffer.words() for buffer in call.outputs}
        before = {buffer.name: buffer.words_before(poison) for buffer in call.outputs}
        returned = self._returned(answer)
        opaque = set()
        dtypes = {name: value.dtype for name, value in returned.items() if isinstance(value, torch.Tensor)}
        promised = {name: torch_dtype(self._dtype(name)) for name in dtypes}
        for name, value in returned.items():
            is_rows = self.binding.is_rows(name)
            found = _words_returned(value, is_rows=is_rows)
            as_promised = not is_rows and found.shape == self._shape(name)
            words[name] = found.reshape(-1) if as_promised else found
            before[name] = poison_words(poison, words[name])
            if not (isinstance(value, torch.Tensor) and allocated.made(value)):
                opaque.add(name)
        written = [(b, b.damage(elements_too=False)) for b in call.outputs]
        changed = [(b, b.damage(elements_too=True)) for b in call.inputs]
        damage = (
            *(f"`{buffer.name}` was written {at}" for buffer, at in written if at),
            *(f"input `{buffer.name}` was changed {at}" for buffer, at in changed if at),
            *allocated.damage(),
        )
        return Observation(
            words,
            before,
            damage,
            watch,
            poison,
            frozenset(opaque),
            {name: _named(dtype) for name, dtype in dtypes.items()},
            {name: _named(must) for name, must in promised.items() if must != dtypes[name]},
            {name: self._shape(name) for name in returned if not self.binding.is_rows(name)},
        )

    def buffers(self, poison: int) -> tuple[dict[str, Any], list[Buffer], list[Buffer]]:
        """Return host numbers by name, and the buffers of inputs and outputs, not yet placed."""
        numbers: dict[str, Any] = {}
        inputs = []
        for name in self.binding.inputs:
            held = self.held(name)
            if isinstance(held, TENSORS):
                inputs.append(hold(name, held, "cpu" if name.endswith("_cpu") else self.device))
            else:
                numbers[name] = held
        return numbers, inputs, [self._output(name, poison) for name in self.binding.outputs]

    def _output(self, name: str, poison: int) -> Buffer:
        theirs, own = self.binding.named_output(name)
        before = theirs.before if theirs else own.before if own else None
        if before is not None:
            held = before(self._inputs)
            assert isinstance(held, TENSORS)
            buffer = hold(name, held, self.device)
            if buffer.large is not None:
                buffer.words_there = words_of(view_of(buffer.large, 0, buffer), is_rows=buffer.is_rows)
            return buffer
        shape = self._shape(name)
        strides = own.strides(self.case) if own and own.strides else (*shape[1:], 1)
        is_rows = self.binding.is_rows(name)
        return poisoned(name, shape, self._dtype(name), strides, is_rows, self.device, poison)

    def _shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an output."""
        theirs, own = self.binding.named_output(name)
        if theirs is not None:
            width = (theirs.width(self.case),) if theirs.width else ()
            return (theirs.length(self._inputs), *width)
        assert own is not None
        return own.shape(self.case)

    def _dtype(self, name: str) -> str:
        """Return what the elements of an output are."""
        theirs, own = self.binding.named_output(name)
        if theirs is not None:
            return theirs.dtype
        assert own is not None
        return own.dtype(self.case)

    def _returned(self, answer: Any) -> dict[str, torch.Tensor | int | list[int]]:
        names = self.binding.returned
        if not names or (answer is None and self.binding.outputs):
            return {}
        if isinstance(answer, dict):
            names = tuple(name for name in names if name in answer or not self.binding.is_optional(name))
            values: list[Any] = [dict.get(answer, name) for name in names]
        else:
            alone = isinstance(answer, _PLAIN) or (len(names) == 1 and _is_ints(answer))
            values = [answer] if alone else list(() if answer is None else answer)
            if len(values) < len(names):
                names = tuple(name for name in names if not self.binding.is_optional(name))
        if len(values) != len(names) or not all(type(v) in _PLAIN or _is_ints(v) for v in values):
            told = type(answer).__name__
            if isinstance(answer, (tuple, list)):
                kinds = dict.fromkeys(type(value).__name__ for value in values)
                told += f" of {len(values)} ({', '.join(kinds)})"
            must = "a plain tensor, an int or a list of ints each"
            raise KernelRaised(f"returned {told}, must be {', '.join(names)}: {must}")
        return dict(zip(names, values, strict=True))


def _is_ints(value: Any) -> bool:
    return type(value) is list and all(type(number) is int for number in value)


def _words_returned(value: torch.Tensor | int | list[int], *, is_rows: bool) -> Words:
    """Return the elements of a tensor or of a list, or a host number as one element."""
    if isinstance(value, torch.Tensor):
        return words_of(value, is_rows=is_rows)
    return np.array(value if isinstance(value, list) else [value], dtype=np.int64)


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_host(buffer: Buffer) -> bool:
    return buffer.name.endswith("_cpu")
