"""A call and the memory of its arguments."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from cumae.properties.interpreter.region import Region, spans_of
from cumae.properties.operations.targets import Interruption
from cumae.properties.running.arena import Arena
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import oracles_shut
from cumae.properties.running.memory import Buffer
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.stopwatch import timed
from cumae.properties.running.volume import note_given


class Buffers(NamedTuple):
    """The arguments of a call before they are placed. ``in_place``: outputs that are inputs too."""

    numbers: dict[str, Any]
    inputs: list[Buffer]
    outputs: list[Buffer]
    in_place: frozenset[str]


class Call:
    """One call whose arguments lie in memory of their own, or in that of an earlier call.

    After an ``earlier`` call of the same function, buffers keep their addresses if all of them fit, and
    outputs that are no inputs start with the values that it left. ``room``: bytes that each buffer may
    grow to at its address.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        buffers: Buffers,
        device: Device,
        earlier: "Call | None" = None,
        *,
        room: int = 0,
    ) -> None:
        self.function = function
        self._device = device
        self.numbers, self.inputs, self.outputs, in_place = buffers
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
            self.arenas = (Arena(there, device, room), Arena(here, "cpu", room))
        stale = [b.name for b in self.outputs if self.reuses and b.name not in in_place]
        for arena, part in zip(self.arenas, self._parts, strict=True):
            if part:
                arena.fill(part, stale=stale)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        return self.numbers | {buffer.name: buffer.tensor for buffer in (*self.inputs, *self.outputs)}

    def run(self) -> Any:
        """Call the function and wait for it. Raises ``KernelRaised`` with its error inside.

        On a GPU it waits for the current stream only: the function must join its other streams to that.
        """
        note_given(self.arguments)
        try:
            with oracles_shut(), timed("kernel"):
                answer = self.function(**self.arguments)
            if self._device == "cuda":
                torch.cuda.current_stream().synchronize()
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException as error:  # `SystemExit` or pytest's skip must not end the run
            raise KernelRaised.of(error, self.function) from error
        return answer

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


def _is_host(buffer: Buffer) -> bool:
    return buffer.name.endswith("_cpu")
