"""The tour before random cases: both sides of the sizes that a function shows, and production sizes."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cumae.oracle import Case
from cumae.properties.cases.ladder import TILES, Ladder
from cumae.properties.running.launches import Launches, TooManyPrograms
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner

CHECKS = ("agrees", "writes_everything", "stays_in_bounds")
"""The checks of a tour, unless the search has a single one: two calls of the function serve all three."""
SHARE = 0.15
"""The time of a tour, as a share of the time that the examples of the search are expected to take."""
LEAST_SECONDS = 0.6
LENGTHS = (4_097, 2_049, 1_025, 513, 257)
COUNTS = (1_025, 513, 257, 129)
"""The first sizes tried of lengths, and of requests and padding: the largest for which there is time."""
FAR_LENGTHS = (131_073, 65_537, 32_769, 16_385, 8_193)
FAR_COUNTS = (65_537, 16_385, 8_193, 4_097, 2_049)
"""The sizes tried at the end, if the first ones leave time."""
LARGEST_ID = 65_537
LARGE_OPTION = 4_097
"""A value of every option that is a length or a count, beyond those that engines run."""
MOST_NAMED, MOST_EDGE, MOST_COUNT = 8, 4_097, 1_025
"""Sizes of the function that are visited on both sides, up to this length and this many requests."""


def tour_seconds(budget: Budget, case_seconds: float) -> float:
    """Return the time of the tour of a search whose first cases took so long each; 0 without examples."""
    if budget.examples == 0:
        return 0.0
    expected = budget.seconds if budget.seconds is not None else (budget.examples or 0) * case_seconds
    return max(SHARE * expected, LEAST_SECONDS)


@dataclass(slots=True)
class Tour:
    """A tour of one search. ``named``: the sizes that the function shows, the most telling ones first.

    ``clock``: tells the seconds that are limited; the time of the processor is not that of other processes.
    """

    examiner: Examiner
    launches: Launches
    named: tuple[int, ...]
    seconds: float
    clock: Callable[[], float] = time.process_time
    _began: float = 0.0
    _took: dict[str, tuple[int, float]] = field(default_factory=dict)

    def run(self) -> None:
        """Examine the cases for which there is time, in a fixed order."""
        self._began = self.clock()
        binding = self.examiner.binding
        ladder = Ladder(binding.domain, binding.features)
        edges = [size for size in self.named if size <= MOST_EDGE]
        self._first("long", ladder.long, LENGTHS)
        self._first("many", ladder.many, COUNTS)
        self._first("padded", lambda size: ladder.padded(size, size // 2 + 1), COUNTS)
        for case in ladder.valued(LARGE_OPTION):
            self._try("valued", case)
        twice = {2 * size for size in edges if 2 * size < MOST_EDGE}
        self._try("edges", ladder.edges(sorted({*TILES, *edges, *twice})))
        for size in edges[:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size - 1, 2), (2 * size, 1)):
                self._try("tokens", ladder.tokens(count, padding))
            self._try("padded", ladder.padded(size, min(size, MOST_COUNT) - 4))
            self._try("wide", ladder.wide(size + 1))
        for size in edges[:MOST_NAMED]:
            for value in (size + 1, size):
                for case in ladder.valued(value):
                    self._try("valued", case)
        for size in [size for size in edges if size <= MOST_COUNT][:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size - 1, 2)):
                self._try("many", ladder.requests(count, padding))
        self._try("ids", ladder.ids(LARGEST_ID))
        for size in [size for size in self.named if size > MOST_EDGE][:MOST_NAMED]:
            self._try("long", ladder.long(size + 1))
            self._try("ids", ladder.ids(size + 1))
        self._first("long", ladder.long, FAR_LENGTHS)
        self._first("many", ladder.many, FAR_COUNTS[1:])
        self._first("padded", lambda size: ladder.padded(size, size // 4 + 1), FAR_LENGTHS)
        self._first("wide", ladder.wide, FAR_LENGTHS)
        self._first("many", ladder.many, FAR_COUNTS[:1])

    @property
    def _left(self) -> float:
        return self._began + self.seconds - self.clock()

    def _first(self, kind: str, build: Callable[[int], Case | None], sizes: Iterable[int]) -> None:
        """Examine the case of the first size that is expected to fit into the time that is left."""
        for size in sizes:
            if self._expected(kind, size) > self._left:
                continue
            began = self.clock()
            if self._try(kind, build(size)):
                self._took[kind] = size, self.clock() - began
                return

    def _expected(self, kind: str, size: int) -> float:
        """Return the seconds that a size is expected to take, by the largest smaller one of its kind."""
        if kind not in self._took:
            return 0.0
        known, seconds = self._took[kind]
        return seconds * size / known

    def _try(self, kind: str, case: Case | None) -> bool:
        """Examine a case; return False if it would launch too many programs for the time that is left."""
        if case is None or self.examiner.binding.why_not(case) is not None:
            return True
        if self._left <= 0 or self.examiner.pace.is_late():
            return False
        self.launches.allow(self._left / 2)
        verdict = self.examiner.verdict
        counted = verdict.cases, verdict.comparisons
        try:
            self.examiner.examine(case, checks=CHECKS)
        except TooManyPrograms:
            verdict.cases, verdict.comparisons = counted
            return False
        finally:
            self.launches.allow(float("inf"))
        return True
