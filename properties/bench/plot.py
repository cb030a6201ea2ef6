"""Times as bars: a group for each size, its longest time over the whole width."""

from collections.abc import Sequence
from itertools import groupby

from cumae.properties.bench.clock import Timing
from cumae.properties.results.canvas import LEFT, RIGHT, WIDTH, Picture

ROOM = 90.0  # for the number behind a bar


def plot(timings: Sequence[Timing]) -> str:
    """Return an SVG of the times, in their order."""
    picture = Picture(1.0, label="times of kernels as bars")
    widest = WIDTH - LEFT - RIGHT - ROOM
    for size, group in groupby(timings, lambda timing: timing.size):
        same = list(group)
        longest = max(timing.microseconds for timing in same)
        picture.y += 16
        picture.text(LEFT, picture.y, size, "soft")
        picture.y += 6
        for timing in same:
            width = widest * timing.microseconds / longest
            told = f"{timing.microseconds:,.2f} µs"
            picture.bar(LEFT, picture.y, width, 12, "new", f"{timing.kernel}: {told} ± {timing.spread:.2f}")
            picture.text(LEFT - 8, picture.y + 10, timing.kernel, "small", "end")
            picture.text(LEFT + width + 6, picture.y + 10, told, "small")
            picture.y += 16
    return picture.element()
