"""One call of a kernel on one case: copy inputs, poison outputs, launch, read everything back."""

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import TENSORS, Floats, Held, Ints, Rows
from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.region import Region
from cumae.properties.interpreter.threads import Threads
from cumae.properties.interpreter.turns import Turns
from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations import Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.expected import expected_of
from cumae.properties.operations.items import as_promised
from cumae.properties.operations.outputs import shape_of
from cumae.properties.operations.strides import held_input, offset_of, output_strides
from cumae.properties.operations.targets import Interruption
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.buffer import GUARD_BYTES, Buffer
from cumae.properties.running.call import Buffers, Call, damage_of
from cumae.properties.running.device import Device, interpreting
from cumae.properties.running.memory import hold, poisoned, view_of
from cumae.properties.running.observation import KernelRaised, Observation, Seen
from cumae.properties.running.returned import returned_by, returns_another, with_returned
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.running.stopwatch import timed
from cumae.properties.running.words import words_of

POISON = 0xA5
COMPLEMENT = 0x5A
OTHER_GARBAGE = 0x55
"""The bits in which the garbage of rows that are modified in place differs from that of inputs."""


class Bench:
    """A binding and a case on a device: observes calls, and asks the oracle only after the first one.

    ``previous``: the step before, for functions that keep state. ``begins`` is called before each call.
    ``like``: the bench of the same case, or of one that differs in strides, garbage and widths alone.
    ``foreseen``: what a call with a poison did that was made before, and is not made again. ``moved``: the
    bench of the case whose block ids were raised: its caches are the last blocks of this one's, and alone
    are judged.
    """

    def __init__(
        self,
        binding: Binding,
        case: Case,
        device: Device,
        previous: Case | None = None,
        begins: Callable[[], None] | None = None,
        like: "Bench | None" = None,
        moved: "Bench | None" = None,
    ) -> None:
        self.binding = binding
        self.case = case
        self.device = device
        if like is not None:
            inputs = like._inputs.alike(case)
        else:  # made anew, so that no answer is known before the first call
            inputs = Inputs.of(case, anew=True) if previous is None else Inputs(case, previous)
        self._inputs: Inputs = inputs
        self._begins = begins
        self._moved = moved
        self._like = like
        self._expected: dict[str, Expected] | None = None
        self.foreseen: dict[int, Seen] = {}
        self._held: dict[str, Held] = {}
        self._buffers: dict[tuple[str, int], Buffer] = {}
        if like is not None and case is like.case:
            self._held, self._buffers = like._held, like._buffers

    @property
    def judged_case(self) -> Case:
        """The case whose outputs are judged."""
        return self.case if self._moved is None else self._moved.case

    def begin(self) -> None:
        """Tell that a call begins."""
        if self._begins is not None:
            self._begins()

    def made(self) -> Callable[..., Any]:
        """Return the function, or a new instance of the class. Raises ``KernelRaised`` if it raises."""
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
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException as error:  # as in a call
            raise KernelRaised.of(error, function) from error
        return instance

    def held(self, name: str) -> Held:
        """Return an input in the form of the dialect."""
        if name not in self._held:
            self._held[name] = held_input(self.binding, name, self._inputs)
        return self._held[name]

    def expected(self) -> dict[str, Expected]:
        """Return the oracle's values of each output; they are those of a bench that this one is like."""
        if (other := self._moved or self._like) is not None:
            return other.expected()
        if self._expected is None:
            self._expected = self._asked()
        return self._expected

    def _asked(self) -> dict[str, Expected]:
        forms = self.binding.forms
        outputs = [forms[name] for name in (*self.binding.outputs, *self.binding.returned)]
        with timed("oracle"):
            expected = expected_of(self.binding.operation, outputs, self._inputs, self.held)
        return as_promised(forms, self.binding.domain, self.case, expected)

    def observe(
        self,
        poison: int = POISON,
        order_seed: int | None = None,
        *,
        races: bool = False,
        overflow: bool = False,
        turns: Turns | None = None,
        threads: Threads | None = None,
        filled: Collection[str] = (),
    ) -> Observation:
        """Call the function once on fresh buffers. Raises ``KernelRaised`` with its error inside."""
        self.begin()
        if (seen := self.foreseen.pop(poison, None)) is not None:
            if isinstance(seen, KernelRaised):
                raise seen
            return seen
        allocated = FencedAllocations(poison, turns_round=order_seed is not None)
        how: dict[str, Any] = {"races": races, "turns": turns, "threads": threads, "filled": filled}
        how["overflow"] = overflow or sanitizing() == "debug"
        watched = watching(order_seed, **how) if interpreting() else nullcontext()
        with watched as watch:
            with allocated if self.binding.keeps_state else nullcontext():
                function = self.made()
            call = self.call(poison, function=function)
            if watch is not None:
                watch.follow(poison, lambda: (*self._poisoned(call), *allocated.poisoned()))
                watch.given = lambda: (*call.given(), *allocated.regions())
            with allocated:
                answer = call.run()
            if watch is not None:
                watch.indices_turned = allocated.turned
        call.collect()
        return self.seen(call, answer, allocated, watch, poison)

    def _poisoned(self, call: Call) -> Iterator[Region]:
        """Yield the memory of each output that is no input too and is small enough to keep."""
        for buffer in call.outputs:
            if buffer.before is not None and not self.binding.forms[buffer.name].is_in_place:
                assert buffer.tensor is not None
                start, item = buffer.tensor.data_ptr(), buffer.tensor.element_size()
                size = buffer.span_bytes(buffer.before)
                yield Region(buffer.name, start, start + size, item, *_rows_of(buffer))

    def answered(self, call: Call, watch: Watch | None = None) -> Observation:
        """Run a prepared call, and return what it did; ``watch`` is told what memory the call was given."""
        if watch is not None:
            watch.given = call.given
        allocated = FencedAllocations(POISON)
        with allocated:
            answer = call.run()
        call.collect()
        return self.seen(call, answer, allocated, None)

    def seen(
        self, call: Call, answer: Any, allocated: FencedAllocations, watch: Watch | None, poison: int = POISON
    ) -> Observation:
        """Return the outputs and the damage of a call that was read back."""
        damage = tuple([*damage_of(call), *allocated.damage()])
        seen = Observation(
            {buffer.name: buffer.words() for buffer in call.outputs},
            {buffer.name: buffer.words_before(poison) for buffer in call.outputs},
            damage,
            watch,
            poison,
            unread=not self.binding.returned and returns_another(answer, call.outputs),
        )
        returned = returned_by(self.binding, answer)
        return with_returned(seen, returned, self.binding, self.case, allocated) if returned else seen

    def call(
        self,
        poison: int,
        earlier: Call | None = None,
        *,
        function: Callable[..., Any] | None = None,
        room: int = 0,
    ) -> Call:
        """Return a prepared call. ``function``: the instance to call; without it, a new one is made."""
        if function is None:
            self.begin()
        return Call(function or self.made(), self.buffers(poison), self.device, earlier, room=room)

    def buffers(self, poison: int, guard: int = GUARD_BYTES) -> Buffers:
        """Return the host numbers by name and the buffers of inputs and outputs."""
        numbers: dict[str, Any] = {}
        inputs, there, here = list[Buffer](), list[Buffer](), list[Buffer]()
        for name in self.binding.inputs:
            held = self.held(name)
            if isinstance(held, TENSORS):
                buffer = self._input(name, held, guard)
                inputs.append(buffer)
                (here if name.endswith("_cpu") else there).append(buffer)
            else:
                numbers[name] = held
        outputs = [self._output(name, poison, guard) for name in self.binding.outputs]
        in_place = frozenset([name for name in self.binding.outputs if self.binding.forms[name].is_in_place])
        return Buffers(numbers, inputs, outputs, in_place, there + outputs, here)

    def _input(self, name: str, held: Ints | Rows | Floats, guard: int) -> Buffer:
        if (name, guard) in self._buffers:
            return self._buffers[name, guard].again()
        offset = offset_of(held, self.case, in_place=False)
        buffer = hold(name, held, "cpu" if name.endswith("_cpu") else self.device, offset, guard)
        if buffer.before is not None:
            self._buffers[name, guard] = buffer
        return buffer

    def _output(self, name: str, poison: int, guard: int) -> Buffer:
        form = self.binding.forms[name]
        if form.before is not None:
            held = form.before(self._inputs)
            assert isinstance(held, TENSORS)
            if isinstance(held, Rows):
                # Not as other garbage, of which a copy would change nothing; another poison turns each bit.
                held = replace(held, fill=held.fill ^ OTHER_GARBAGE ^ POISON ^ poison)
            buffer = hold(name, held, self.device, offset_of(held, self.case, in_place=True), guard)
            if self._moved is not None:
                held = form.before(self._moved._inputs)
                assert isinstance(held, TENSORS)
                buffer.judged = _last(held.shape, buffer.shape)
            if buffer.large is not None:
                there = view_of(buffer.large, 0, buffer)[buffer.judged]
                buffer.words_there = words_of(there, is_rows=buffer.is_rows)
            return buffer
        shape, dtype = shape_of(form, self.case), form.dtype_for(self.case)
        strides, offset = output_strides(self.binding, name, self.case), self.case.layout.storage_offset
        return poisoned(name, shape, dtype, strides, form.is_rows, self.device, poison, offset, guard)


def _last(few: tuple[int, ...], many: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the index of the last ``few`` of many elements in each dimension."""
    return tuple(slice(size - last, None) for last, size in zip(few, many, strict=True))


def _rows_of(buffer: Buffer) -> tuple[int, int]:
    """Return how many elements apart rows begin, and how many each has; rows of bytes count as one."""
    if buffer.is_rows:
        return buffer.strides[0], 1
    if len(buffer.shape) < 2 or buffer.strides[-1] != 1:
        return buffer.strides[-1], 1
    return max(buffer.strides[-2], 1), max(buffer.shape[-1], 1)
