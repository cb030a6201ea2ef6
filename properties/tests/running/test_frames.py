"""Room for frames: a loop of calls maps no memory, however deep it begins."""

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from cumae.properties.running.frames import with_room

CALLS = 300


def _nothing(a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0, g: int = 0) -> None:
    """Do nothing, in a frame larger than the steps of `_mapped`: at some depth it crosses a chunk's end."""


def _mapped(depth: int) -> int:
    """Return the page faults of a loop of calls, so many calls deep."""
    if depth:
        return _mapped(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        _nothing()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _most() -> int:
    """Return the most page faults of the loop, at each depth of more than a chunk of frames."""
    return max(_mapped(depth) for depth in range(400))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames of Python 3.10 are objects, not in chunks")
@pytest.mark.parametrize(("run", "maps"), [(lambda call: call(), True), (with_room, False)])
def test_a_loop_on_a_large_frame_maps_no_memory(run: Callable[..., int], maps: bool) -> None:
    # A thread has frames of its own, whatever the test's caller left.
    with ThreadPoolExecutor(1) as thread:
        assert (thread.submit(run, _most).result() >= CALLS) == maps
