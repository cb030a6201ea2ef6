"""The visitor of a tour: examines cases while there is work left, and counts the work."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from cumae.oracle import Case
from cumae.properties.running.volume import Volume
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.visit import Visit
from cumae.properties.search.work import ACCESS, PROGRAM, least_work, work_of
from cumae.properties.steps.sized import TooLargeError

COUNTED, CALLS = ("agrees", "writes_everything", "stays_in_bounds"), 2
"""The checks of a tour whose work is counted, and the calls of the function that serve all of them."""
CHECKS = (*COUNTED, "accepts_index_types")
"""The checks of a tour. The last one calls once more, with the other promised width of lengths and ids; with
several padded requests, `ignores_garbage` does so too."""
IDLE = 3
"""Padded requests behind thousands of others; with as many, their don't-care values are changed too."""
SLOWER, PATIENCE = 3.0, 10.0
"""A tour also ends if it takes so many seconds, and so many times those of its work: the function is slow.
Its last cases, to which work is lent, get as many seconds more."""


@dataclass(slots=True)
class Visitor:
    """Examines the cases of one tour for which there is work left.

    ``work``: the most work; it is counted, so that the same function is shown the same cases again.
    """

    examiner: Examiner
    volume: Volume
    work: float
    _done: float = 0.0
    _most: float = inf
    _stop_at: float = field(init=False)
    _visits: dict[str, Visit] = field(default_factory=dict)
    _too_large: dict[str, float] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = 0.0 if self.is_timed else PATIENCE
        self._stop_at = self.examiner.clock + max(least, self._slower * self.work)

    @property
    def is_timed(self) -> bool:
        """Whether the search has a budget of seconds."""
        return self.examiner.pace.budget.seconds is not None

    def first(
        self, kind: str, build: Callable[[int], Case | None], sizes: Iterable[int], share: float = 1.0
    ) -> int:
        """Examine the case of the first size that fits into a share of the work that is left.

        Return the size, or 0 if none fits.
        """
        most = share * self._left
        for size in sizes:
            if not self._left:  # building a large case takes long
                return 0
            if not self.fits(kind, size):
                continue
            self._most = min(self._left, most)
            try:
                case = build(size)
            except TooLargeError:
                continue
            finally:
                self._most = inf
            work = self._work(case) if case is not None else 0.0
            if work > min(self._left, most):
                self._visits[kind] = Visit(size, work)
                continue
            done, seconds = self._done, self._kernel_seconds
            self.volume.take()
            if self.visit(case, most=most):
                took = self._kernel_seconds - seconds
                self._visits[kind] = Visit(size, self._done - done, self.volume.take(), took)
                self._reached[kind] = max(size, self._reached.get(kind, 0))
                return size
            self._too_large[kind] = size
        return 0

    def beyond(self, kind: str, build: Callable[[int], Case | None], size: int, lent: float) -> None:
        """Examine the case of one size if only smaller ones of its kind were examined.

        ``lent``: work that the case may take beyond what is left.
        """
        seen = self._visits.get(kind)
        takes_too_much = seen is not None and seen.expected(size) == inf
        if self._reached.get(kind, 0) >= size or takes_too_much or self._is_late:
            return
        case = build(size)
        if case is None or self._work(case) > self._left + lent or not self.visit(case, lent):
            return
        self._reached[kind] = max(size, self._reached.get(kind, 0))

    def fits(self, kind: str, size: int) -> bool:
        """Return whether a size is expected to fit, by the last one of its kind.

        Large cases take long to build, so one that cannot fit is not built.
        """
        if size >= self._too_large.get(kind, inf):
            return False
        return kind not in self._visits or self._visits[kind].expected(size) <= self._left

    def admits(self, requests: int, tokens: int, keys: int) -> bool:
        """Return whether a case of this size may be as little work as `first` looks for."""
        return least_work(requests, tokens, keys, self._num_checks) <= self._most

    def visit(self, case: Case | None, lent: float = 0.0, most: float = inf) -> bool:
        """Examine a case; return False if its launches are too much for the work that is left.

        ``lent``: work that the case may take beyond it; ``most``: the work that it may take in all.
        """
        if case is None or self.examiner.binding.why_not(case) is not None:
            return True
        left = min(self._left + lent, most)
        if left <= 0 or self._is_late:
            return False
        launches = self.examiner.launches
        checks = (*CHECKS, "ignores_garbage") if case.layout.num_padding_requests >= IDLE else CHECKS
        # Calls with the other width and with other don't-care values are not counted: they repeat the first.
        counted = CALLS / (CALLS + len({*checks}.difference(COUNTED).intersection(self.examiner.checks)))
        programs, accesses, left_out = launches.programs, launches.accesses, self.examiner.verdict.left_out
        launches.most_programs = left / (CALLS * PROGRAM)
        launches.most_accesses = left / (CALLS * ACCESS)
        try:
            ran = self.examiner.examine(case, checks=checks)
        finally:
            launches.most_programs = launches.most_accesses = inf
        if self.examiner.verdict.left_out > left_out:
            return False
        programs = round(counted * (launches.programs - programs))
        accesses = round(counted * (launches.accesses - accesses))
        work = self._work(case, programs, accesses) if ran else accesses * ACCESS
        self._done += max(work - lent, 0.0)
        return ran

    @contextmanager
    def own_work(self, share: float) -> Iterator[None]:
        """Let the cases examined within have work and seconds of their own: a share of the tour's.

        Without a budget of seconds, those that they take are none of the tour's.
        """
        done, work, stop_at, begin = self._done, self.work, self._stop_at, self.examiner.clock
        self._done, self.work = 0.0, share * work
        self._stop_at = max(stop_at, self.examiner.clock + self._slower * self.work)
        try:
            yield
        finally:
            took = 0.0 if self.is_timed else self.examiner.clock - begin
            self._done, self.work, self._stop_at = done, work, stop_at + took

    def take_longer(self) -> None:
        """Let the cases that follow take more seconds; of a budget of seconds, half as many as the tour's."""
        if not self.is_timed:
            self._stop_at = max(self._stop_at, self.examiner.clock) + PATIENCE
        else:
            self._stop_at = max(self._stop_at, self.examiner.clock + self.work / 2)

    @property
    def _slower(self) -> float:
        """How many times the seconds of its work a tour, or a part of it, may take."""
        return 1.0 if self.is_timed else SLOWER

    @property
    def _kernel_seconds(self) -> float:
        """Seconds in the function so far; 0 on a GPU, where compiling takes most of them."""
        return self.examiner.pace.timed["kernel"] if self.examiner.device == "cpu" else 0.0

    @property
    def _is_late(self) -> bool:
        """Whether the time is up."""
        return self.examiner.pace.is_late() or self.examiner.clock > self._stop_at

    @property
    def _left(self) -> float:
        """The work that is left; 0 if the time is up."""
        return 0.0 if self._is_late else max(self.work - self._done, 0.0)

    def _work(self, case: Case, programs: int = 0, accesses: int = 0) -> float:
        """Return the work of a case; at first without what is interpreted, which only running it shows."""
        features = self.examiner.binding.operation.features
        return work_of(case, features, self._num_checks, programs, accesses)

    @property
    def _num_checks(self) -> int:
        """How many checks of each case are counted."""
        return len({*COUNTED}.intersection(self.examiner.checks))
