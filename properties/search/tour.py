"""The tour before random cases: both sides of the sizes that a function shows, and production sizes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from cumae.properties.cases.values import TOPKS, WINDOWS
from cumae.properties.search import tour_of_extremes, tour_of_steps
from cumae.properties.search.budget import Budget
from cumae.properties.search.profiles import EXAMPLES
from cumae.properties.search.tour_of_extremes import (
    BROAD,
    COUNTS,
    FAR_COUNTS,
    LENGTHS,
    LENT,
    MOST_COUNT,
    MOST_EDGE,
    MOST_NAMED,
    with_idle,
)
from cumae.properties.search.visitor import CHECKS, Visitor
from cumae.properties.steps.ladder import TILES, Ladder
from cumae.properties.steps.option_sizes import shaped, valued
from cumae.properties.steps.steps_of_one_kind import among_decodes
from cumae.properties.steps.widths import broad, large_blocks

ALONE = 0.1
"""The part of a tour that a search gets which does not compare values."""
SHARE = 0.2
"""The work of a tour, as a share of what the examples of the search are expected to take."""
LEAST = 1.25
"""The least work, for as many examples as the `ci` profile has or more; fewer get a part of it."""
CLIMB = (37, 133, 517, 1_037)
"""Tokens, and four times the requests, of the first cases under a budget of seconds. They show how the work
grows with the size of a case: one that is expected to take too long is left out."""
FAR_LENGTHS = (131_073, 65_537, 32_769, 16_385, 8_193)
"""The lengths tried at the end, if the first ones leave work."""
LARGEST_ID = 65_600
"""All ids of a case with this one are past 2^16."""
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
AMONG_DECODES = ((12, 0), (67, 5))
"""Decodes around one request of six tokens, and idle requests. The second step has as many tokens as
requests, but is not uniform."""
SHAPES = 0.4
"""The work of blocks, heads and experts that the function shows, as a share of the tour's."""


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
    """A tour of one search. ``named``: the sizes that the function shows, the most telling ones first."""

    visitor: Visitor
    named: tuple[int, ...]

    def run(self) -> None:
        """Examine the cases for which there is work left, in a fixed order."""
        visitor, binding = self.visitor, self.visitor.examiner.binding
        ladder = Ladder(binding.domain, binding.features, visitor.admits)
        self._production_sizes(ladder)
        self._both_sides(ladder)
        for count, num_idle in AMONG_DECODES:
            visitor.visit(among_decodes(ladder, count, num_idle))
        for sizes in BROAD:
            visitor.visit(broad(ladder, *sizes), lent=LENT * visitor.work)
        tour_of_steps.in_small_pages(visitor, ladder)
        with visitor.own_work(SHAPES):
            for size in self._edges[:MOST_NAMED]:
                for value in (size, size + 1):
                    for case in shaped(ladder, value):
                        visitor.visit(case)
        tour_of_extremes.crowds(visitor, ladder)
        tour_of_steps.alike(visitor, ladder)
        tour_of_steps.lined_up(visitor, ladder)
        tour_of_steps.of_models(visitor, ladder)
        tour_of_extremes.exact(visitor, ladder, self.named)
        tour_of_extremes.far(visitor, ladder)
        tour_of_steps.far_of_models(visitor, ladder)
        tour_of_steps.put_together(visitor, ladder)
        self._largest(ladder)
        tour_of_extremes.beyond(visitor, ladder)

    @property
    def _edges(self) -> list[int]:
        """The sizes of the function that are small enough to be visited on both sides."""
        return [size for size in self.named if size <= MOST_EDGE]

    def _production_sizes(self, ladder: Ladder) -> None:
        """Examine long requests, many of them, padding, large ids and large options."""
        visitor = self.visitor
        if visitor.is_timed:
            for count in CLIMB:
                visitor.visit(ladder.tokens(count, 1))
                visitor.visit(ladder.requests(count // 4, 1))
        visitor.first("long", ladder.long, LENGTHS)
        if 0 < visitor.first("many", ladder.many, COUNTS) < COUNTS[0]:
            visitor.visit(ladder.many(COUNTS[0]), lent=LENT * visitor.work)
        visitor.first("padded", lambda size: ladder.padded(size, size // 2 + 1), COUNTS)
        visitor.visit(ladder.ids(LARGEST_ID))
        visitor.visit(large_blocks(ladder))
        for case in valued(ladder, LARGE_OPTION, LARGE_OPTIONS):
            visitor.visit(case)
        for name in ("window", "topk"):
            for value in VALUES[name]:
                for case in valued(ladder, value, (name,)):
                    visitor.visit(case)

    def _both_sides(self, ladder: Ladder) -> None:
        """Examine both sides of the sizes that the function shows, of tokens, options and requests."""
        visitor, edges = self.visitor, self._edges
        twice = {2 * size for size in edges if 2 * size < MOST_EDGE}
        visitor.visit(ladder.edges(sorted({*TILES, *edges, *twice})))
        for size in edges[:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size - 1, 2), (2 * size, 1)):
                visitor.visit(ladder.tokens(count, padding))
            visitor.visit(ladder.padded(size, min(size, MOST_COUNT) - 4))
            visitor.visit(ladder.wide(size + 1))
        for size in edges[:MOST_NAMED]:
            for value in (size + 1, size):
                for case in valued(ladder, value):
                    visitor.visit(case)
        for size in [size for size in edges if size <= MOST_COUNT][:MOST_NAMED]:
            for count, padding in ((size, 0), (size + 1, 0), (size + 2, 0), (size - 1, 2)):
                visitor.visit(ladder.requests(count, padding))

    def _largest(self, ladder: Ladder) -> None:
        """Examine the largest lengths and numbers of requests for which work is left."""
        visitor, with_count = self.visitor, partial(with_idle, ladder)
        for size in [size for size in self.named if size > MOST_EDGE][:MOST_NAMED]:
            if visitor.fits("long", size + 1):
                visitor.visit(ladder.long(size + 1))
            visitor.visit(ladder.ids(size + 1))
        visitor.first("long", ladder.long, FAR_LENGTHS)
        visitor.first("many", with_count, FAR_COUNTS[1:])
        visitor.first("padded", lambda size: ladder.padded(size, size // 4 + 1), FAR_LENGTHS)
        visitor.first("wide", ladder.wide, FAR_LENGTHS)
        visitor.first("many", with_count, FAR_COUNTS[:1])
