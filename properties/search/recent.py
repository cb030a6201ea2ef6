"""The last small cases that a function was called on: a failure may need the calls before it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice

from cumae.oracle import Case, leveled
from cumae.properties.cases.edits import with_options_of
from cumae.properties.cases.reducer import valid
from cumae.properties.cases.requests import MANY

MOST_KEPT, MOST_STEPS = 4_096, 256
"""Number of small cases that are kept, and of the steps before a failing case."""
MOST_ROWS = 1_024
"""A small case has so many rows of tokens at most."""


@dataclass(slots=True)
class Recent:
    """Keeps the last small cases, in the order of the calls."""

    _cases: deque[Case] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))

    def note(self, case: Case) -> None:
        """Keep a case if it is small."""
        if case.num_tokens_padded <= MOST_ROWS and len(case.batch.requests) <= MANY:
            self._cases.append(case)

    def steps_before(self, failing: Case, why_not: Callable[[Case], str | None]) -> tuple[Case, ...]:
        """Return the last cases as steps of the failing case's engine, over and over if they are few.

        A check calls the function several times on one case, so more calls were made than cases are kept.
        ``why_not``: returns why a case is not promised, None if it is.
        """
        steps = [failing]
        for recent in reversed(self._cases):
            step = valid(partial(_of_engine, recent, failing))
            if step is not None and why_not(step) is None:
                steps.append(step)
            if len(steps) == MOST_STEPS:
                break
        steps.reverse()
        return tuple(islice(cycle(steps), MOST_STEPS))


def _of_engine(case: Case, other: Case) -> Case:
    """Return a case as one of the engine of another case. Raises ``ValueError`` if it cannot be one.

    In blocks of the same size it keeps its own: a function may keep an answer by some of them.
    """
    is_alike = case.batch.block_size == other.batch.block_size
    step = replace(case, options=other.options) if is_alike else with_options_of(case, other)
    return leveled([step, other]).steps[0]
