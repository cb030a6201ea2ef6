"""Room for Python's frames: loops that call functions where a chunk of frames ends are slow."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
WORDS = 32_000
"""The size of the frame: half of the memory mapped for it is left to the frames of what it calls."""


def with_room(call: Callable[[], T]) -> T:
    """Return the result of a call on a large frame.

    CPython from 3.11 on keeps frames in chunks of 16 KiB. A loop whose calls cross the end of a chunk maps
    and unmaps memory at each of them, which took half of a search's time where its depth happened to be so.
    The chunk of a large frame is large too.
    """
    return call()


with_room.__code__ = with_room.__code__.replace(co_stacksize=WORDS)
