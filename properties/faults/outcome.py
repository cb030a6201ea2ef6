"""Outcomes of mutants, and the clock that limits them."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from cumae.properties.operations.targets import Interruption

Status = Literal["killed", "equivalent", "equal on the small domain", "survived"]
STATUSES: tuple[Status, ...] = ("killed", "equivalent", "equal on the small domain", "survived")


@dataclass(frozen=True, slots=True)
class Outcome:
    """``by``: the check that killed the mutant, or the proof that it is equal; ``cases``: cases run."""

    status: Status
    by: str
    cases: int = 0
    message: str = ""


class OutOfTime(Interruption):
    """Raised when a mutant exceeds its time; ``except Exception`` does not catch it."""


class Clock:
    """Ends code in the main thread that runs for more than ``seconds`` after the last ``wind``.

    Counts processor time, so a busy machine kills no mutant. ``longest``: the longest time between
    two calls of ``wind``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.longest = 0.0
        self._wound: float | None = None

    def wind(self, *_: object) -> None:
        """Restart the count."""
        now = time.process_time()
        if self._wound is not None:
            self.longest = max(self.longest, now - self._wound)
        self._wound = now
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raise ``OutOfTime`` within when the time is up."""

        def ring(*_: object) -> None:
            raise OutOfTime

        before = signal.signal(signal.SIGPROF, ring)
        self._wound = None
        self.wind()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
