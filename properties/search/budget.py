"""How long a search goes on."""

from dataclasses import dataclass
from math import inf

SHRINK_SECONDS = 60.0
"""How long a failing case is made smaller, beyond a budget of examples."""
GRACE_SECONDS = 2.0
"""How long at least, where the time of a budget is up."""
FIRST_SHARE, CASE_SHARE = 1 / 2, 1 / 8
"""Of a budget of time: what the first cases may take together, and one case that is unusually dear."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to search beyond the first cases: ``examples`` more, or ``seconds`` in all.

    ``volume``: the share of cases, in percent, drawn by the seeded generator instead of Hypothesis.
    ``most_shrinking``: seconds at most in which a failing case is made smaller.
    """

    examples: int | None = None
    seconds: float | None = None
    seed: int = 0
    volume: int = 50
    most_shrinking: float = inf

    @property
    def case_seconds(self) -> float:
        """How long a case may take that costs many times what others do."""
        return inf if self.seconds is None else self.seconds * CASE_SHARE

    def shrink_seconds(self, spent: float) -> float:
        """Return how long a failing case is made smaller that was found after so many seconds."""
        most = min(SHRINK_SECONDS, self.most_shrinking)
        if self.seconds is None:
            return most
        return min(most, max(self.seconds - spent, self.seconds / 10, GRACE_SECONDS))
