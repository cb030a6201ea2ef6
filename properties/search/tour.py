"""The tour before random cases: both sides of the sizes that a function shows, and production sizes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from cumae.oracle import Case
from cumae.properties.cases.ladder import TILES, Ladder
from cumae.properties.running.launches import Launches, TooManyPrograms
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.profiles import EXAMPLES
from cumae.properties.search.work import PROGRAM, work_of

CHECKS = ("agrees", "writes_everything", "stays_in_bounds")
"""The checks of a tour, unless the search has a single one: two calls of the function serve all three."""
SHARE = 0.2
"""The work of a tour, as a share of what the examples of the search are expected to take."""
LEAST = 1.0
"""The least work, for as many examples as the quick profile has or more; fewer get a part of it."""
SLOWER = 3.0
"""A tour also ends if it takes so many times the seconds of its work: the function itself is slow."""
LENGTHS = (4_097, 2_049, 1_025, 513, 257)
COUNTS = (1_025, 513, 257, 129)
"""The first sizes tried of lengths, and of requests and padding: the largest for which there is work left."""
FAR_LENGTHS = (131_073, 65_537, 32_769, 16_385, 8_193)
FAR_COUNTS = (65_537, 16_385, 8_193, 4_097, 2_049)
"""The sizes tried at the end, if the first ones leave work."""
LARGEST_ID = 65_537
LARGE_OPTION = 4_097
"""Selected keys, keys of a window and numbers of a row, beyond those that engines run."""
MOST_NAMED, MOST_EDGE, MOST_COUNT = 8, 4_097, 1_025
"""Sizes of the function that are visited on both sides, up to this length and this many requests."""


def work_of_tour(budget: Budget, work: float) -> float:
    """Return the work of a tour if the first cases were so much work each; 0 without examples."""
    if budget.examples == 0:
        return 0.0
    if budget.seconds is not None:
        return SHARE * budget.seconds
    examples = budget.examples or 0
    return max(SHARE * examples * work, LEAST * min(1.0, examples / EXAMPLES["quick"]))


@dataclass(slots=True)
class Tour:
    """A tour of one search. ``named``: the sizes that the function shows, the most telling ones first.

    ``work``: the most work; it is counted, so that the same function is shown the same cases again.
    """

    examiner: Examiner
    launches: Launches
    named: tuple[int, ...]
    work: float
    _done: float = 0.0
    _stop_at: float = 0.0
    _took: dict[str, tuple[int, float]] = field(default_factory=dict)

    def run(self) -> None:
        """Examine the cases for which there is work left, in a fixed order."""
        pace = self.examiner.pace
        slower = 1.0 if pace.budget.seconds is not None else SLOWER
        self._stop_at = pace.elapsed() + slower * self.work
        binding = self.examiner.binding
        ladder = Ladder(binding.domain, binding.features)
        edges = [size for size in self.named if size <= MOST_EDGE]
        self._first("long", ladder.long, LENGTHS)
        self._first("many", ladder.many, COUNTS)
        self._first("padded", lambda size: ladder.padded(size, size // 2 + 1), COUNTS)
        for case in ladder.valued(LARGE_OPTION, ("topk", "window", "row")):
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
    def _routes(self) -> bool:
        return "router" in self.examiner.binding.features

    @property
    def _left(self) -> float:
        is_late = self.examiner.pace.is_late() or self.examiner.pace.elapsed() > self._stop_at
        return 0.0 if is_late else self.work - self._done

    def _first(self, kind: str, build: Callable[[int], Case | None], sizes: Iterable[int]) -> None:
        """Examine the case of the first size that is expected to fit into the work that is left."""
        for size in sizes:
            if self._expected(kind, size) > self._left:
                continue
            done = self._done
            if self._try(kind, build(size)):
                self._took[kind] = size, self._done - done
                return

    def _expected(self, kind: str, size: int) -> float:
        """Return the work that a size is expected to be, by the largest smaller one of its kind."""
        if kind not in self._took:
            return 0.0
        known, work = self._took[kind]
        return work * size / known

    def _try(self, kind: str, case: Case | None) -> bool:
        """Examine a case; return False if it would launch too many programs for the work that is left."""
        if case is None or self.examiner.binding.why_not(case) is not None:
            return True
        if self._left <= 0:
            return False
        calls, programs = 2, self.launches.programs
        self.launches.most_programs = self._left / (calls * PROGRAM)
        verdict = self.examiner.verdict
        compared = verdict.comparisons
        try:
            self.examiner.examine(case, checks=CHECKS)
        except TooManyPrograms:
            verdict.cases -= verdict.comparisons == compared
            return False
        finally:
            self.launches.most_programs = inf
        num_checks = min(len(CHECKS), len(self.examiner.checks))
        num_programs = self.launches.programs - programs
        experts = case.options.router.num_experts if self._routes else 0
        self._done += work_of(case, num_checks, num_programs, experts)
        return True
