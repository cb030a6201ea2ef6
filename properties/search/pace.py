"""The time of a search: time left, time limits of cases, and time spent by part."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from cumae.oracle import Case
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.stopwatch import Part
from cumae.properties.search.budget import FIRST_SHARE, Budget
from cumae.properties.search.costs import UNUSUAL, Costs

SLOW_SECONDS = (1.0, 10.0)
"""A case that takes a quarter of the time is reported: never below the first, always from the second on."""


@dataclass(slots=True)
class Pace:
    """The time of a search. ``timed``: seconds in the kernel and in the oracle so far.

    ``late_at``: no check begins after it; ``stop_at``: reducing ends then. ``is_dear``: whether the
    running case costs many times as much as the cheapest one.
    """

    verdict: Verdict
    budget: Budget
    timed: dict[Part, float] = field(default_factory=lambda: {"kernel": 0.0, "oracle": 0.0})
    started: float = field(default_factory=lambda: time.monotonic())
    late_at: float = inf
    stop_at: float = inf
    costs: Costs = field(default_factory=Costs)
    is_dear: bool = False
    _busy: float = 0.0
    _case_began: float = 0.0
    _slowest: tuple[float, int, int] = (0.0, 0, 0)
    _allowed: float = 0.0

    def __post_init__(self) -> None:
        if self.budget.seconds is not None:
            self.late_at = min(self.late_at, self.started + self.budget.seconds)

    def elapsed(self) -> float:
        """Return the seconds since the search began."""
        return time.monotonic() - self.started

    def is_late(self, share: float = 1.0) -> bool:
        """Return whether the time for new cases, or a share of it, is up; the first case always runs."""
        if not self.verdict.cases or self.budget.seconds is None:
            return False
        return time.monotonic() >= self.started + self.budget.seconds * share

    def is_late_for_first(self) -> bool:
        """Return whether the time of the first cases is up."""
        return self.is_late(FIRST_SHARE)

    def must_stop(self) -> bool:
        """Return whether the time for reducing a failing case is up."""
        return time.monotonic() > self.stop_at

    def is_too_dear(self, case: Case) -> bool:
        """Return whether a case is predicted to cost many times the cheapest and more than it may take."""
        if self.budget.seconds is None or not self.verdict.cases or self.verdict.failure is not None:
            return False
        most = min(self.budget.case_seconds, self.late_at - time.monotonic())
        if self.costs.foretells_at_most(most, case):
            return False
        foretold = self.costs.foretold(case)
        return foretold > most and foretold > UNUSUAL * self.costs.cheapest()

    @contextmanager
    def at_work(self, case: Case, before: float = 0.0) -> Iterator[None]:
        """Count the time that a case takes, beyond the seconds that it took ``before``."""
        self._case_began, self.is_dear = time.monotonic() - before, False
        try:
            yield
        finally:
            if self.verdict.failure is None:
                self._count(case)

    def _count(self, case: Case) -> None:
        took = time.monotonic() - self._case_began
        self._busy += took
        if took > self._slowest[0]:
            self._slowest = (took, case.num_requests_padded, case.num_tokens_padded)

    def learn(self, case: Case) -> None:
        """Record the cost of the first check of a case."""
        # The first case is slow because it compiles and loads.
        if self.budget.seconds is not None and self.verdict.cases > 1 and self.verdict.failure is None:
            seconds = time.monotonic() - self._case_began
            self.costs.learn(case, seconds)
            self.is_dear = seconds > UNUSUAL * self.costs.cheapest()

    def goes_on(self) -> bool:
        """Return whether the case may go on: time is left, and an expensive case has not used its share."""
        now = time.monotonic()
        if self.verdict.failure is not None:
            return now <= self.stop_at
        if now > self.late_at:
            return False
        return not (self.is_dear and now - self._case_began > self.budget.case_seconds)

    def seconds_left(self) -> float:
        """Return the seconds until no check begins, or until reducing ends."""
        return (self.late_at if self.verdict.failure is None else self.stop_at) - time.monotonic()

    def found(self, case: Case) -> None:
        """Record that a failing case was found and start the time for reducing it."""
        self._count(case)
        self.verdict.spent = self._spent()
        self._allowed = self.budget.shrink_seconds(self.elapsed())
        self.stop_at = time.monotonic() + self._allowed

    def stopped(self) -> str:
        """Return in words that time ended the reduction; empty if it did not."""
        return f"{self._allowed:.0f} s were up" if self.must_stop() else ""

    def tell(self) -> None:
        """Write the time by part into the verdict, and the slowest case if it was slow."""
        verdict, took = self.verdict, self._slowest[0]
        verdict.seconds = self.elapsed()
        if not verdict.spent:
            verdict.spent = self._spent()
        verdict.spent["reducing"] = max(0.0, verdict.seconds - sum(verdict.spent.values()))
        least, most = SLOW_SECONDS
        told_from = min(most, max(least, (self.budget.seconds or inf) / 4))
        if took >= told_from or verdict.cut or verdict.left_out:
            verdict.slowest = self._slowest

    def _spent(self) -> dict[str, float]:
        kernel, oracle = self.timed["kernel"], self.timed["oracle"]
        generating = max(0.0, self.elapsed() - self._busy)
        checks = max(0.0, self._busy - kernel - oracle)
        return {"generating": generating, "oracle": oracle, "kernel": kernel, "checks": checks}
