"""How far a GPU has come with calls that the host does not wait for, known also once the device is lost."""

import ctypes
import mmap
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch

from cumae.properties.running.device import Device

_MOMENT = 0.05
"""Seconds that calls take together, as a rule; if they take longer, it is told which one runs."""


class _Word(NamedTuple):
    """A number on the host, and how to have the device write it: stream, address, value and flags."""

    value: torch.Tensor
    write: Callable[[int, int, int, int], int]


class Progress:
    """Calls that are launched one after the other. ``is_exact``: whether the device tells which are over.

    On the CPU, and where it does not, each call has to be over before the next begins.
    """

    def __init__(self, device: Device) -> None:
        self._word = _word() if device == "cuda" else None
        self.is_exact = self._word is not None
        if self._word is not None:
            self._word.value.zero_()

    @property
    def num_over(self) -> int:
        """The number of calls that are over, if the device tells."""
        return int(self._word.value) if self._word is not None else 0

    def passed(self, count: int) -> None:
        """Have the device note that so many calls are over once it comes here.

        Raises ``RuntimeError`` if the device is lost.
        """
        if self._word is not None:
            stream, address = torch.cuda.current_stream().cuda_stream, self._word.value.data_ptr()
            if error := self._word.write(stream, address, count, 0):
                raise RuntimeError(f"cuStreamWriteValue32 returned {error}")

    def wait(self, runs: Callable[[int], None]) -> None:
        """Wait until all calls are over; ``runs`` gets the number of one that takes long.

        Raises ``RuntimeError`` if the device is lost.
        """
        if self._word is None:
            return
        stream, began, told = torch.cuda.current_stream(), time.monotonic(), -1
        while not stream.query():
            if time.monotonic() - began > _MOMENT:
                if self.num_over != told:
                    told = self.num_over
                    runs(told)
                time.sleep(0.001)


@cache
def _word() -> _Word | None:
    """Return a number on the host that the device can write in stream order, None if it cannot.

    The stream itself writes it. A copy would wait for another engine of the GPU, which then turns to other
    processes: with copies, sixteen of them tried less than a third of the cases. The number is not pinned by
    torch: with such memory, commands failed after a kernel had lost the CUDA context.
    """
    try:
        write = ctypes.CDLL("libcuda.so.1").cuStreamWriteValue32_v2
    except (OSError, AttributeError):
        return None
    write.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint
    word = torch.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), dtype=torch.int32, count=1)[0]
    runtime, address = torch.cuda.cudart(), word.data_ptr()
    if int(runtime.cudaHostRegister(address, mmap.PAGESIZE, 0)):
        return None
    if write(torch.cuda.current_stream().cuda_stream, address, 0, 0):
        runtime.cudaHostUnregister(address)  # some virtual GPUs refuse such writes
        return None
    return _Word(word, write)
