"""How long a search goes on."""

from dataclasses import dataclass

SHRINK_SECONDS = 60.0
"""How long a failing case is made smaller, beyond the budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to search beyond the first cases: ``examples`` more, or ``seconds`` in all.

    ``volume``: the share of cases, in percent, drawn by the seeded generator instead of Hypothesis.
    """

    examples: int | None = None
    seconds: float | None = None
    seed: int = 0
    volume: int = 50
