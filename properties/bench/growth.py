"""How the time of a whole step's metadata grows with its tokens and with its requests. GPU only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cumae.properties.bench.clock import graph_time
from cumae.properties.bench.step_times import Sizes, Step, drawn_step

TOKENS = {f"{n:,}": (1024, (0, 100), (n // 1024, n // 1024)) for n in (2**i for i in range(12, 23, 2))}
DECODES = {f"{n:,}": (n, (1, 8192), (1, 1)) for n in (2**i for i in range(6, 17, 2))}
SWEEPS: dict[str, dict[str, Sizes]] = {"tokens of 1,024 requests": TOKENS, "decodes": DECODES}
"""Sizes of growing steps, by what grows; the name of a size is its number."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Median microseconds at each size, and the line through them.

    ``microseconds``: at size 0; ``nanoseconds``: for each one more.
    """

    way: str
    grows: str
    sizes: list[int]
    times: list[float]
    microseconds: float
    nanoseconds: float


def growth(device: str, progress: Callable[[str], None] = lambda state: None) -> Iterator[Growth]:
    """Yield how four kernels and one launch grow, measured in CUDA graphs."""
    for grows, sweep in SWEEPS.items():
        times: dict[str, list[float]] = {}
        for size, sizes in sweep.items():
            progress(f"growth, {size} {grows}")
            for way, run in _kernels(drawn_step(device, sizes)):
                times.setdefault(way, []).append(graph_time(run)[0])
        numbers = [int(size.replace(",", "")) for size in sweep]
        for way, each in times.items():
            yield Growth(way, grows, numbers, each, *fitted(numbers, each))


def fitted(sizes: list[int], times: list[float]) -> tuple[float, float]:
    """Return microseconds at size 0 and nanoseconds for each one more: the least squares of relative errors.

    >>> [round(number, 6) for number in fitted([1000, 2000, 4000], [3.0, 4.0, 6.0])]
    [2.0, 1.0]
    """
    slope, start = np.polyfit(sizes, times, 1, w=1 / np.array(times))
    return float(start), float(slope) * 1000


def _kernels(step: Step) -> list[tuple[str, Callable[[], None]]]:
    return [(name, call) for name, call in step.ways() if "torch" not in name]
