"""A call and the memory of its arguments."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from cumae.properties.interpreter.region import Region, spans_of
from cumae.properties.operations.targets import Interruption
from cumae.properties.running.arena import Arena, Memory
from cumae.properties.running.buffer import Buffer, Bytes
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import oracles_shut
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.stopwatch import timed
from cumae.properties.running.volume import note_given


class Buffers(NamedTuple):
    """The arguments of a call before they are placed.

    ``in_place``: outputs that are inputs too. ``there``: the tensors on the device; ``here``: on the host.
    """

    numbers: dict[str, Any]
    inputs: list[Buffer]
    outputs: list[Buffer]
    in_place: frozenset[str]
    there: list[Buffer]
    here: list[Buffer]


class Call:
    """One call whose arguments lie in memory of their own, or in that of an earlier call.

    After an ``earlier`` call of the same function, buffers keep their addresses if all of them fit, and
    outputs that are no inputs start with the values that it left. ``room``: bytes that each buffer may
    grow to at its address. ``within``: the memory of several calls, and where the call's places begin in it;
    whoever made this memory writes it and reads it back.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        buffers: Buffers,
        device: Device,
        earlier: "Call | None" = None,
        *,
        room: int = 0,
        within: tuple[Memory, int] | None = None,
    ) -> None:
        self.function = function
        self._device = device
        self.numbers, self.inputs, self.outputs, in_place, there, here = buffers
        self._parts = there, here
        self.reuses = earlier is not None and all(
            arena.holds(part) for arena, part in zip(earlier.arenas, self._parts, strict=True)
        )
        self.arenas: tuple[Arena, Arena]
        if earlier is not None and self.reuses:
            self.arenas = earlier.arenas
        else:
            self.arenas = (
                Arena(there, device, room, within),
                Arena(here, "cpu", room) if here else _NO_PLACES,
            )
        stale = [b.name for b in self.outputs if self.reuses and b.name not in in_place]
        if within is None and there:
            self.arenas[0].fill(there, stale=stale)
        if here:
            self.arenas[1].fill(here)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        return self.numbers | {buffer.name: buffer.tensor for buffer in (*self.inputs, *self.outputs)}

    def run(self, *, wait: bool = True) -> Any:
        """Call the function and wait for it. Raises ``KernelRaised`` with its error inside.

        On a GPU it waits for the current stream only: the function must join its other streams to that.
        """
        note_given(self.arguments)
        try:
            with oracles_shut(), timed("kernel"):
                answer = self._answer()
            if self._device == "cuda" and wait:
                torch.cuda.current_stream().synchronize()
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException as error:  # `SystemExit` or pytest's skip must not end the run
            raise KernelRaised.of(error, self.function) from error
        return answer

    def _answer(self) -> Any:
        try:
            return self.function(**self.arguments)
        except Exception as error:
            if type(error).__name__ != "FailOnRecompileLimitHit":
                raise
            torch.compiler.reset()  # torch compiles a function for a limited number of kinds of calls
            return self.function(**self.arguments)

    def given(self) -> Iterator[Region]:
        """Yield the memory of each tensor argument, including the gaps of its strides."""
        for buffer in (*self.inputs, *self.outputs):
            if buffer.tensor is not None:
                yield from spans_of(buffer.name, buffer.tensor)

    def collect(self) -> None:
        """Read the buffers back."""
        for arena, part in zip(self.arenas, self._parts, strict=True):
            if part:
                arena.collect(part)
        if self._device == "cuda":
            torch.cuda.synchronize()  # work on other streams must not reach the next call

    def lay(self, content: Bytes) -> None:
        """Write the buffers into the content of the memory of several calls."""
        self.arenas[0].lay(self._parts[0], content)

    def take(self, content: Bytes) -> None:
        """Read the buffers from the content of the memory of several calls."""
        there, here = self.arenas
        there.take(self._parts[0], content)
        if self._parts[1]:
            here.collect(self._parts[1])


def damage_of(call: Call) -> Iterator[str]:
    """Yield where a call that was read back changed bytes that it must not change."""
    for buffer in call.outputs:
        if at := buffer.damage(elements_too=False):
            yield f"`{buffer.name}` was written {at}"
    for buffer in call.inputs:
        if at := buffer.damage(elements_too=True):
            yield f"input `{buffer.name}` was changed {at}"


_NO_PLACES = Arena((), "cpu")
