"""The tour before random cases: both sides of the sizes that a function shows, and production sizes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf

from cumae.oracle import Case
from cumae.properties.cases.kinds import KINDS, among_decodes
from cumae.properties.cases.ladder import TILES, Ladder
from cumae.properties.cases.option_sizes import cut, drafted, selected, valued
from cumae.properties.cases.values import TOPKS, WINDOWS
from cumae.properties.running.volume import Volume
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.profiles import EXAMPLES
from cumae.properties.search.visit import Visit
from cumae.properties.search.work import ACCESS, PROGRAM, work_of

COUNTED, CALLS = ("agrees", "writes_everything", "stays_in_bounds"), 2
"""The checks of a tour whose work is counted, and the calls of the function that serve all of them."""
CHECKS = (*COUNTED, "accepts_index_types")
"""The checks of a tour. The last one calls once more, with the other promised width of lengths and ids; with
several padded requests, `ignores_garbage` does so too."""
WORLDS = (2, 8)
"""The numbers of ranks in cases of long contexts."""
FAR_WORLD = 16
"""The number of ranks that take as many positions at a time as a block has."""
ALONE = 0.1
"""The part of a tour that a search gets which does not compare values."""
SHARE = 0.2
"""The work of a tour, as a share of what the examples of the search are expected to take."""
LEAST = 1.25
"""The least work, for as many examples as the `ci` profile has or more; fewer get a part of it."""
SLOWER, PATIENCE = 3.0, 20.0
"""A tour also ends if it takes so many seconds, and so many times those of its work: the function is slow.
Its last cases, to which work is lent, get as many seconds more."""
LENGTHS = (4_097, 2_049, 1_025, 513, 257, 129)
COUNTS = (1_027, 515, 259, 131, 67)
"""The first sizes tried of lengths, and of requests and padding: the largest for which there is work left.
Two requests or more lie beyond a tile: the first one's tokens may begin where they should."""
LENT = 2.5
"""Times the work of the tour, lent to the largest first number of requests: a program each is usual."""
FAR_LENGTHS = (131_073, 65_537, 32_769, 16_385, 8_193)
FAR_COUNTS = (65_539, 16_387, 8_195, 4_099, 2_051)
"""The sizes tried at the end, if the first ones leave work."""
LARGEST_ID = 65_600
"""All ids of a case with this one are past 2^16."""
BEYOND = (
    ("deep", "long", 8_209, 1.5),
    ("requests", "many", 4_099, 1.5),
    ("crowd", "many", 4_099, 1.5),
    ("tokens", "long", 65_549, 3.5),
)
"""Cases of one size each, the kind of which a case as large makes it needless, and times the work of the tour
that is lent to it. A crowd has few tokens, for functions that take a program for each."""
IDLE = 3
"""Padded requests behind thousands of others; with as many, their don't-care values are changed too."""
MOST_LENT = 4.5
"""The most work that is lent to one of them."""
VALUES = {"window": WINDOWS[1:], "topk": TOPKS}
"""The lengths that engines run as options; each comes with requests about as long."""
LARGE_OPTION = 4_097
"""A length or a count of each kind beyond those that engines run."""
LARGE_OPTIONS = (
    "topk",
    "window",
    "row",
    "ring_capacity",
    "chunk_size",
    "chunk_blocks",
    "num_workers",
    "min_window_columns",
    "split_size",
)
LARGE_WORLD = 67
CROWDS, ALIKE = 0.3, 0.4
"""The work of crowds, wide tables and ranks beside that of the tour, and of steps of one kind, as shares."""
ROOM = (391, 131)
"""Rows and columns of a table beyond the needed ones: engines size it for their longest request."""
LULLS = (2_051, 519, 263, 131)
"""Requests in a row without a new token: whole tiles of them."""
DRAFTED = (64, 771)
"""Drafts of each request, and requests: as many rows as 15 bits count are sampled."""
LISTING = frozenset({"min_window_columns", "split_size", "select_beyond", "num_spare_tokens"})
"""Features of operations that list the keys of each token, or cut them into items."""
LONG_WINDOW = 81_921
"""Keys of a window where none is listed: some models see nearly all of a long context."""
FAR_CONTEXTS = (131_073, 8_193)
AMONG_DECODES = ((12, 0), (67, 5))
"""Decodes around one request of six tokens, and idle requests. The second step has as many tokens as
requests, but is not uniform."""
BROAD = (8, 128, 1_100)
"""Heads, the numbers of each, and tokens of a case."""
CUTS = ((1, 5, 32_779), (3, 65_601, 71))
"""Chunk sizes, and the context and new tokens of a prefill: more chunks than int16 counts, and positions
that 16 bits do not hold, for chunks of which 2^16 is no multiple."""
SELECTED = (2_048, 16_391)
"""Keys that a token selects, and the tokens of a step: their product passes 2^24, as in production."""
MOST_NAMED, MOST_EDGE, MOST_COUNT = 8, 4_097, 1_025
"""Sizes of the function that are visited on both sides, up to this length and this many requests."""


def work_of_tour(budget: Budget, work: float, checks: Iterable[str] = CHECKS) -> float:
    """Return the work of a tour if the first cases were so much work each; 0 if there is to be none."""
    if {*CHECKS}.isdisjoint(checks):
        return 0.0
    part = 1.0 if "agrees" in checks else ALONE
    if budget.seconds is not None:
        return part * SHARE * budget.seconds
    examples = budget.examples or 0
    return part * max(SHARE * examples * work, LEAST * min(1.0, examples / EXAMPLES["ci"]))


@dataclass(slots=True)
class Tour:
    """A tour of one search. ``named``: the sizes that the function shows, the most telling ones first.

    ``work``: the most work; it is counted, so that the same function is shown the same cases again.
    """

    examiner: Examiner
    volume: Volume
    named: tuple[int, ...]
    work: float
    _done: float = 0.0
    _stop_at: float = 0.0
    _visits: dict[str, Visit] = field(default_factory=dict)
    _too_large: dict[str, float] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Examine the cases for which there is work left, in a fixed order."""
        pace = self.examiner.pace
        most = self.work if pace.budget.seconds is not None else max(PATIENCE, SLOWER * self.work)
        self._stop_at = pace.elapsed() + most
        binding = self.examiner.binding
        ladder = Ladder(binding.domain, binding.features)
        edges = [size for size in self.named if size <= MOST_EDGE]
        self._first("long", ladder.long, LENGTHS)
        if 0 < self._first("many", ladder.many, COUNTS) < COUNTS[0]:
            self._try(ladder.many(COUNTS[0]), lent=LENT * self.work)
        self._first("padded", lambda size: ladder.padded(size, size // 2 + 1), COUNTS)
        self._try(ladder.ids(LARGEST_ID))
        self._try(ladder.large_blocks())
        for case in valued(ladder, LARGE_OPTION, LARGE_OPTIONS):
            self._try(case)
        for name in ("window", "topk"):
            for value in VALUES[name]:
                for case in valued(ladder, value, (name,)):
                    self._try(case)
        twice = {2 * size for size in edges if 2 * size < MOST_EDGE}
        self._try(ladder.edges(sorted({*TILES, *edges, *twice})))
        for size in edges[:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size - 1, 2), (2 * size, 1)):
                self._try(ladder.tokens(count, padding))
            self._try(ladder.padded(size, min(size, MOST_COUNT) - 4))
            self._try(ladder.wide(size + 1))
        for size in edges[:MOST_NAMED]:
            for value in (size + 1, size):
                for case in valued(ladder, value):
                    self._try(case)
        for size in [size for size in edges if size <= MOST_COUNT][:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size + 2, 0), (size - 1, 2)):
                self._try(ladder.requests(count, padding))
        for count, num_idle in AMONG_DECODES:
            self._try(among_decodes(ladder, count, num_idle))
        self._try(ladder.broad(*BROAD), lent=LENT * self.work)
        self._crowds(ladder)
        self._alike(ladder)
        self._far(ladder)
        for size in [size for size in self.named if size > MOST_EDGE][:MOST_NAMED]:
            if self._fits("long", size + 1):
                self._try(ladder.long(size + 1))
            self._try(ladder.ids(size + 1))
        self._first("long", ladder.long, FAR_LENGTHS)
        self._first("many", lambda size: ladder.requests(size, IDLE), FAR_COUNTS[1:])
        self._first("padded", lambda size: ladder.padded(size, size // 4 + 1), FAR_LENGTHS)
        self._first("wide", ladder.wide, FAR_LENGTHS)
        self._first("many", lambda size: ladder.requests(size, IDLE), FAR_COUNTS[:1])
        self._beyond(ladder)

    def _crowds(self, ladder: Ladder) -> None:
        """Examine wide tables, ranks, runs of empty requests, and many requests that are not short.

        They have work of their own: large options have often taken all that the tour has.
        """
        done, work = self._done, self.work
        self._done, self.work = 0.0, CROWDS * work
        self._first("roomy", ladder.roomy, ROOM)
        self._first("lulls", ladder.lulls, LULLS)
        if (ranks := ladder.on_ranks(WORLDS[1])) is not None:
            self._first("long on ranks", ranks.long, LENGTHS)
            self._first("padded on ranks", lambda size: ranks.padded(size, size // 2 + 1), COUNTS)
            self._first("busy on ranks", ranks.busy, COUNTS)
        self._first("busy", ladder.busy, COUNTS)
        for case in valued(ladder, LARGE_WORLD, ("world",)):
            self._try(case)
        self._try(drafted(ladder, *DRAFTED))
        for lens in CUTS:
            self._try(cut(ladder, *lens))
        self._done, self.work = done, work

    def _alike(self, ladder: Ladder) -> None:
        """Examine steps of one kind, with work of their own too."""
        done, work = self._done, self.work
        self._done, self.work = 0.0, ALIKE * work
        for name, (build, sizes) in KINDS.items():
            self._first(name, partial(build, ladder), sizes)
        self._done, self.work = done, work

    def _beyond(self, ladder: Ladder) -> None:
        """Examine one case of each kind beyond usual tiles and types, if only smaller ones were examined."""
        builds: dict[str, Callable[[int], Case | None]] = {
            "deep": ladder.deep,
            "requests": lambda size: ladder.requests(size, IDLE),
            "crowd": ladder.crowd,
            "tokens": lambda size: ladder.tokens(size, 0),
        }
        if self.examiner.pace.budget.seconds is None:
            self._stop_at += PATIENCE
        for name, kind, size, times in BEYOND:
            seen = self._visits.get(kind)
            takes_too_much = seen is not None and seen.expected(size) == inf
            if self._reached.get(kind, 0) >= size or takes_too_much or self._is_late:
                continue
            case, lent = builds[name](size), min(times * self.work, MOST_LENT)
            if case is None or self._work(case) > self._left + lent or not self._try(case, lent):
                continue
            self._reached[kind] = max(size, self._reached.get(kind, 0))

    def _far(self, ladder: Ladder) -> None:
        """Examine long contexts, on ranks too, and what is far beyond options that no output lists."""
        in_runs = ladder.in_runs(FAR_WORLD)
        for rungs in (ladder, *map(ladder.on_ranks, WORLDS), in_runs):
            if rungs is not None:
                self._first("far", rungs.far, FAR_CONTEXTS)
        if self.examiner.binding.operation.features.isdisjoint(LISTING):
            for case in valued(ladder, LONG_WINDOW, ("window",)):
                self._try(case)
            self._try(selected(ladder, *SELECTED))

    @property
    def _kernel_seconds(self) -> float:
        """Seconds in the function so far; 0 on a GPU, where compiling takes most of them."""
        return self.examiner.pace.timed["kernel"] if self.examiner.device == "cpu" else 0.0

    @property
    def _is_late(self) -> bool:
        """Whether the time is up."""
        return self.examiner.pace.is_late() or self.examiner.pace.elapsed() > self._stop_at

    @property
    def _left(self) -> float:
        """The work that is left; 0 if the time is up."""
        return 0.0 if self._is_late else max(self.work - self._done, 0.0)

    def _first(self, kind: str, build: Callable[[int], Case | None], sizes: Iterable[int]) -> int:
        """Examine the case of the first size that fits into the work that is left; return it, or 0."""
        for size in sizes:
            if not self._left:  # building a large case takes long
                return 0
            if not self._fits(kind, size):
                continue
            case = build(size)
            work = self._work(case) if case is not None else 0.0
            if work > self._left:
                self._visits[kind] = Visit(size, work)
                continue
            done, seconds = self._done, self._kernel_seconds
            self.volume.take()
            if self._try(case):
                took = self._kernel_seconds - seconds
                self._visits[kind] = Visit(size, self._done - done, self.volume.take(), took)
                self._reached[kind] = max(size, self._reached.get(kind, 0))
                return size
            self._too_large[kind] = size
        return 0

    def _fits(self, kind: str, size: int) -> bool:
        """Return whether a size is expected to fit, by the last one of its kind.

        Large cases take long to build, so one that cannot fit is not built.
        """
        if size >= self._too_large.get(kind, inf):
            return False
        return kind not in self._visits or self._visits[kind].expected(size) <= self._left

    def _try(self, case: Case | None, lent: float = 0.0) -> bool:
        """Examine a case; return False if its launches are too much for the work that is left.

        ``lent``: work that the case may take beyond it.
        """
        if case is None or self.examiner.binding.why_not(case) is not None:
            return True
        left = self._left + lent
        if left <= 0 or self._is_late:
            return False
        launches = self.examiner.launches
        checks = (*CHECKS, "ignores_garbage") if case.layout.num_padding_requests >= IDLE else CHECKS
        # Calls with the other width and with other don't-care values are not counted: they repeat the first.
        counted = CALLS / (CALLS + len({*checks}.difference(COUNTED).intersection(self.examiner.checks)))
        programs, accesses = launches.programs, launches.accesses
        launches.most_programs = left / (CALLS * PROGRAM)
        launches.most_accesses = left / (CALLS * ACCESS)
        try:
            ran = self.examiner.examine(case, checks=checks)
        finally:
            launches.most_programs = launches.most_accesses = inf
        programs = round(counted * (launches.programs - programs))
        accesses = round(counted * (launches.accesses - accesses))
        work = self._work(case, programs, accesses) if ran else accesses * ACCESS
        self._done += max(work - lent, 0.0)
        return ran

    def _work(self, case: Case, programs: int = 0, accesses: int = 0) -> float:
        """Return the work of a case; at first without what is interpreted, which only running it shows."""
        num_checks = len({*COUNTED}.intersection(self.examiner.checks))
        return work_of(case, self.examiner.binding.features, num_checks, programs, accesses)
