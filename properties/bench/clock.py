"""Times of a call: on the device in a CUDA graph or behind queued launches, on the host, and of both."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from triton.testing import do_bench_cudagraph

LAUNCHES = 20
QUEUED_BEHIND = 100_000_000
"""Cycles that the device is busy before queued launches, some 50 ms: time for the host to queue them."""


class WrongResult(Exception):
    """Raised for a function that is to be timed and does not agree."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Median device time of one call in microseconds, ``spread``: from the 10th to the 90th percentile.

    ``launched``: the same without a CUDA graph, behind queued launches; ``floor``: the least that a launch
    which moves the bytes of the call needs.
    """

    kernel: str
    size: str
    microseconds: float
    spread: float
    gigabytes_per_second: float | None = None
    launched: float | None = None
    floor: float | None = None


def graph_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of one call, from graphs of many."""
    torch.cuda.synchronize()  # the timed calls run on another stream
    low, median, high = do_bench_cudagraph(run, quantiles=(0.1, 0.5, 0.9))
    return median * 1000, (high - low) * 1000


def queued_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of one call on a busy device with queued launches."""
    times = []
    for _ in range(20):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(QUEUED_BEHIND)
        start.record()
        for _ in range(LAUNCHES):
            run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / LAUNCHES)
    return _median_and_spread(times)


def host_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of host time of one call."""
    return _timed(run, lambda: None)


def whole_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds from a call on an idle device until the device is done."""
    return _timed(run, torch.cuda.synchronize)


def _timed(run: Callable[[], Any], wait: Callable[[], None]) -> tuple[float, float]:
    times = []
    for _ in range(60):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        wait()
        times.append((time.perf_counter() - started) * 1e6)
    return _median_and_spread(times)


def _median_and_spread(times: list[float]) -> tuple[float, float]:
    times.sort()
    return times[len(times) // 2], times[len(times) * 9 // 10] - times[len(times) // 10]
