"""Which checks run on a drawn case: costly ones run less often, and not where launches are large.

Under a budget of seconds, one that has taken more than its share waits.
"""

from collections.abc import Sequence

EVERY = {
    "forgets_history": 3,
    "holds_in_any_order": 4,
    "keeps_facts": 4,
    "survives_large_ids": 20,
    "replays_in_graph": 10,
    "never_synchronises": 10,
    "waits_for_arguments": 10,
}
"""If several checks run together, a costly one runs every so many cases, and more often at first."""
SHARE = 0.25
"""The share of the time of a search with a budget of seconds that a costly check may take on drawn cases."""
_CALLS = {
    "agrees": 1,
    "stays_in_bounds": 1,
    "is_deterministic": 3,
    "forgets_history": 7,
    "keeps_facts": 7,
    "survives_large_ids": 10,
}
"""The calls of a check on a case, as dear as plain ones; 2 for the others."""
MOST_ACCESSES, OF_EXAMPLE, LEAST_ACCESSES = 30_000, 125, 5_000
"""The most loads and stores of a check's interpreted launches on a drawn case, some three to ten seconds; and
in a search of few examples, so many times their number, but at least some."""


def due(checks: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the checks for a drawn case, by the number of cases so far."""
    if len(checks) == 1:
        return tuple(checks)
    # `keeps_facts` is not among the early: a wrong value on a later case makes a clearer report.
    early = set(EVERY) - {"keeps_facts"} if number & (number - 1) == 0 else ()
    return tuple(n for n in checks if number % EVERY.get(n, 1) == 0 or n in early)


def most_accesses(check: str, examples: int | None) -> float:
    """Return the most loads and stores of one interpreted launch of a check on a drawn case."""
    few = MOST_ACCESSES if examples is None else max(OF_EXAMPLE * examples, LEAST_ACCESSES)
    most = min(MOST_ACCESSES, few)
    return most / _CALLS.get(check, 2)
