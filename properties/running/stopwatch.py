"""Time of a search by part: seconds in the kernel and in the oracle."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Part = Literal["kernel", "oracle"]
_SPENT: ContextVar[dict[Part, float] | None] = ContextVar("cumae_spent", default=None)


@contextmanager
def stopwatch() -> Iterator[dict[Part, float]]:
    """Yield the seconds of each part, counted by ``timed`` within."""
    spent: dict[Part, float] = {"kernel": 0.0, "oracle": 0.0}
    token = _SPENT.set(spent)
    try:
        yield spent
    finally:
        _SPENT.reset(token)


class timed:
    """Add the time within to a part, if a stopwatch runs."""

    __slots__ = ("_part", "_spent", "_started")

    def __init__(self, part: Part) -> None:
        self._part = part

    def __enter__(self) -> None:
        self._spent, self._started = _SPENT.get(), time.monotonic()

    def __exit__(self, *error: object) -> None:
        if self._spent is not None:
            self._spent[self._part] += time.monotonic() - self._started
