"""How far a GPU has come with calls that the host does not wait for, known also once the device is lost."""

import mmap
import time
from collections.abc import Callable
from functools import cache

import torch

from cumae.properties.running.device import Device

_MOMENT = 0.05
"""Seconds that calls take together, as a rule; if they take longer, it is told which one runs."""


class Progress:
    """Calls that are launched one after the other. ``is_exact``: whether the device tells which are over.

    On the CPU, and where it does not, each call has to be over before the next begins.
    """

    def __init__(self, device: Device, num_calls: int) -> None:
        self._over = _word() if device == "cuda" else None
        self.is_exact = self._over is not None
        self._numbers: tuple[torch.Tensor, ...] = ()
        if self._over is not None:
            self._over.zero_()
            self._numbers = _numbers(1 << num_calls.bit_length())

    @property
    def num_over(self) -> int:
        """The number of calls that are over, if the device tells."""
        return int(self._over) if self._over is not None else 0

    def passed(self, count: int) -> None:
        """Have the device note that so many calls are over once it comes here."""
        if self._over is not None:
            self._over.copy_(self._numbers[count], non_blocking=True)

    def wait(self, runs: Callable[[int], None]) -> None:
        """Wait until all calls are over; ``runs`` gets the number of one that takes long.

        Raises ``RuntimeError`` if the device is lost.
        """
        if self._over is None:
            return
        stream, began, told = torch.cuda.current_stream(), time.monotonic(), -1
        while not stream.query():
            if time.monotonic() - began > _MOMENT:
                if self.num_over != told:
                    told = self.num_over
                    runs(told)
                time.sleep(0.001)


@cache
def _numbers(count: int) -> tuple[torch.Tensor, ...]:
    return torch.arange(count, dtype=torch.int32, device="cuda").unbind()


@cache
def _word() -> torch.Tensor | None:
    """Return a number on the host that the device can write, None if it cannot.

    It is not pinned by torch: with such memory, commands failed after a kernel had lost the CUDA context.
    """
    word = torch.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), dtype=torch.int32, count=1)[0]
    error = torch.cuda.cudart().cudaHostRegister(word.data_ptr(), mmap.PAGESIZE, 0)  # type: ignore[no-untyped-call]
    return word if int(error) == 0 else None
