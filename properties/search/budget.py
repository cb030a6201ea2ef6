"""The budget of a search."""

from dataclasses import dataclass
from math import inf

SHRINK_SECONDS = 60.0
"""Time limit for reducing a failing case under a budget of examples."""
GRACE_SECONDS = 2.0
"""Least time for reducing a failing case after the budget's time is up."""
FIRST_SHARE, CASE_SHARE = 1 / 2, 1 / 8
"""Shares of a time budget: for all first cases together, and for one unusually expensive case."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The length of a search: ``examples`` beyond the first cases, or ``seconds`` in all.

    ``volume``: the share of cases, in percent, drawn by the seeded generator instead of Hypothesis.
    ``most_shrinking``: the most seconds for reducing a failing case.
    """

    examples: int | None = None
    seconds: float | None = None
    seed: int = 0
    volume: int = 50
    most_shrinking: float = inf

    @property
    def case_seconds(self) -> float:
        """The time limit in seconds for an unusually expensive case."""
        return inf if self.seconds is None else self.seconds * CASE_SHARE

    def shrink_seconds(self, spent: float) -> float:
        """Return the time limit for reducing a failing case that was found after ``spent`` seconds."""
        most = min(SHRINK_SECONDS, self.most_shrinking)
        if self.seconds is None:
            return most
        return min(most, max(self.seconds - spent, self.seconds / 10, GRACE_SECONDS))
