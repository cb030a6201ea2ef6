"""One line on standard error that tells how far a command is: live on a terminal, now and then in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended."""
LOG_SECONDS = 10.0
"""Seconds between two lines where standard error is no terminal."""


@contextmanager
def telling(what: str, every: float = LOG_SECONDS) -> Iterator[Callable[[str], None]]:
    """Yield a function that tells the state of what runs; nothing of it stays on a terminal."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{what} …") as line:
            yield lambda state: line.update(f"{what}: {state}")
        return
    yield log_lines(what, every=every)


def log_lines(what: str, *, unless: bool = False, every: float = LOG_SECONDS) -> Callable[[str], None]:
    """Return a function that prints a state to standard error now and then. ``unless``: it prints nothing."""
    console = Console(stderr=True)
    due_at = time.monotonic() + every

    def tell(state: str) -> None:
        nonlocal due_at
        if not unless and time.monotonic() >= due_at:
            console.print(f"{what}: {state}", markup=False, highlight=False, soft_wrap=True)
            due_at = time.monotonic() + every

    return tell
