"""What became of a mutant."""

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
    """``by``: the check that killed the mutant, or what shows that it is equal; after how many ``cases``."""

    status: Status
    by: str
    cases: int = 0
    message: str = ""


class OutOfTime(Interruption):
    """Raised where a mutant does not come to an end; no ``except Exception`` keeps it."""


class Clock:
    """Ends what computes for longer than ``seconds`` since it was last wound, in the main thread.

    Processor time is counted, so that a busy machine kills no mutant. ``longest``: the most that was
    counted from one winding to the next.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.longest = 0.0
        self._wound: float | None = None

    def wind(self, *_: object) -> None:
        """Start to count again."""
        now = time.process_time()
        if self._wound is not None:
            self.longest = max(self.longest, now - self._wound)
        self._wound = now
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raise ``OutOfTime`` inside where the time is up."""

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
