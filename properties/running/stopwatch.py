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


@contextmanager
def timed(part: Part) -> Iterator[None]:
    """Add the time within to a part, if a stopwatch runs."""
    spent = _SPENT.get()
    started = time.monotonic()
    try:
        yield
    finally:
        if spent is not None:
            spent[part] += time.monotonic() - started
