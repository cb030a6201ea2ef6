"""The tour before random cases: both sides of the sizes that a function shows, and production sizes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.composed import composed
from cumae.properties.cases.kinds import KINDS, OF_TOKENS, ROUTED, among_decodes, behind, heavy
from cumae.properties.cases.ladder import TILES, Ladder
from cumae.properties.cases.models import MODELS, MORE_MODELS, Served, served
from cumae.properties.cases.option_sizes import cut, drafted, listed, selected, shaped, valued
from cumae.properties.cases.served import STEPS, far
from cumae.properties.cases.values import TOPKS, WINDOWS
from cumae.properties.operations.outputs import num_elements
from cumae.properties.search.budget import Budget
from cumae.properties.search.profiles import EXAMPLES
from cumae.properties.search.visitor import CHECKS, IDLE, Visitor

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
CLIMB = (37, 133, 517, 1_037)
"""Tokens, and four times the requests, of the first cases under a budget of seconds. They show how the work
grows with the size of a case: one that is expected to take too long is left out."""
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
MIXED = "decodes, then others"
BEYOND = (
    (MIXED, MIXED, 133, 1.5),
    (ROUTED, ROUTED, 261, 1.5),
    (ROUTED, ROUTED, 1_029, 3.5),
    ("deep", "long", 8_209, 1.5),
    ("requests", "many", 4_099, 1.5),
    ("crowd", "many", 4_099, 1.5),
    ("requests", "many", 2_053, 1.5),
    ("tokens", "long", 65_549, 3.5),
    ("listed", "listed", 8_209, 3.5),
    ("selections", "selections", 2_060, 3.5),
    ("broad", "broad", 4_611, 3.5),
)
"""Cases of one size each, the kind of which a case as large makes it needless, and times the work of the tour
that is lent to it. A crowd has few tokens, for functions that take a program for each."""
LISTED = 128
"""Keys that each token of such a case lists: a million places, more than a full GPU takes at a time."""
LARGEST_LISTED = {"window": 1_024, "topk": 2_048}
"""Keys that each of fewer tokens lists."""
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
SHAPES, CROWDS, ALIKE, SERVED, FAR, COMPOSED, EXACT = 0.4, 0.3, 1.0, 1.3, 0.5, 1.0, 0.3
"""The work, beside that of the tour, of blocks, heads and experts that the function shows, of crowds, wide
tables and ranks, of steps of one kind and of those of served models (twice as much where examples are
counted, not seconds), of their longest contexts, and of those that are exactly as large as the function
shows, as shares."""
ROOM = (391, 131)
"""Rows and columns of a table beyond the needed ones: engines size it for their longest request."""
LULLS = (2_051, 519, 263, 131)
"""Requests in a row without a new token: whole tiles of them."""
DRAFTED = ((64, 771), (300, 3))
"""Drafts of each request, and requests: more rows than 15 bits count are sampled, and more drafts of a
request than 8 bits count."""
LISTING = frozenset({"min_window_columns", "split_size", "select_beyond", "num_spare_tokens"})
"""Features of operations that list the keys of each token, or cut them into items."""
WEIGHTY = LISTING | {"row_format", "head_format", "router"}
"""Features of operations for which millions of cached tokens are too much."""
LONG_WINDOW = 81_921
"""Keys of a window where none is listed: some models see nearly all of a long context."""
FAR_CONTEXTS, FAR_SERVED = (131_073, 8_193), (600_011, 200_003)
BEHIND, SEEN = 600_011, {"window": 128, "topk": 2, "row": 2}
"""A context of more pages than int16 counts, and what lets few of its keys, or few bytes of them, be read."""
HEAVY = 2**20
"""Cached tokens of each of many decodes: their sum passes 2^24, up to which fp32 counts. It takes little if
the outputs have fewer elements than one of them has tokens."""
AMONG_DECODES = ((12, 0), (67, 5))
"""Decodes around one request of six tokens, and idle requests. The second step has as many tokens as
requests, but is not uniform."""
MANY_SERVED = ((67, 37, 19), (45, 35, 11), (35, 21, 7))
"""Requests of steps of served models, in turns: the first of these that is not too much."""
NUM_COMPOSED, MOST_COMPOSED = 280, (261, 65, 16, 4)
"""Steps put together from aspects, and the most requests of one, if it is not too much."""
LEAST_LEFT_OUT = 6
"""After so many in a row that are too much, and one of each model, no more of them are built."""
FAIR, EVEN = 8.0, 2.0
"""Of the work that is left for the kinds of steps, one kind takes at most so many times an equal part; the
far contexts of one model, which cost about as much as another's, less."""
ON_RANKS = ("decodes", "verified", "identical prompts", "one far", "decodes, then others")
"""Steps of one kind that also lie on ranks."""
BROAD = ((8, 128, 1_100), (2, 16, 2_051))
"""Heads, the numbers of each, and tokens of a case."""
MANY_HEADS = 67
"""Heads of a token, more than a tile of programs or of lanes."""
FAR_BOUND = 70_003
"""Tokens by which the host's bound exceeds every context, as where a graph was captured for the longest."""
CUTS = ((1, 5, 32_779), (3, 65_601, 71))
"""Chunk sizes, and the context and new tokens of a prefill: more chunks than int16 counts, and positions
that 16 bits do not hold, for chunks of which 2^16 is no multiple."""
SPARE = (65_543, 8_195, 4_101)
"""Rows of buffers beyond the tokens of a small step."""
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
    """A tour of one search. ``named``: the sizes that the function shows, the most telling ones first."""

    visitor: Visitor
    named: tuple[int, ...]

    def run(self) -> None:
        """Examine the cases for which there is work left, in a fixed order."""
        visitor, binding = self.visitor, self.visitor.examiner.binding
        ladder = Ladder(binding.domain, binding.features)
        edges = [size for size in self.named if size <= MOST_EDGE]
        if visitor.is_timed:
            for count in CLIMB:
                visitor.visit(ladder.tokens(count, 1))
                visitor.visit(ladder.requests(count // 4, 1))
        visitor.first("long", ladder.long, LENGTHS)
        if 0 < visitor.first("many", ladder.many, COUNTS) < COUNTS[0]:
            visitor.visit(ladder.many(COUNTS[0]), lent=LENT * visitor.work)
        visitor.first("padded", lambda size: ladder.padded(size, size // 2 + 1), COUNTS)
        visitor.visit(ladder.ids(LARGEST_ID))
        visitor.visit(ladder.large_blocks())
        for case in valued(ladder, LARGE_OPTION, LARGE_OPTIONS):
            visitor.visit(case)
        for name in ("window", "topk"):
            for value in VALUES[name]:
                for case in valued(ladder, value, (name,)):
                    visitor.visit(case)
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
        for count, num_idle in AMONG_DECODES:
            visitor.visit(among_decodes(ladder, count, num_idle))
        for broad in BROAD:
            visitor.visit(ladder.broad(*broad), lent=LENT * visitor.work)
        with visitor.own_work(SHAPES):
            for size in edges[:MOST_NAMED]:
                for value in (size, size + 1):
                    for case in shaped(ladder, value):
                        visitor.visit(case)
        self._crowds(ladder)
        self._alike(ladder)
        self._served(ladder)
        self._exact(ladder)
        self._far(ladder)
        self._far_served(ladder)
        self._composed(ladder)
        for size in [size for size in self.named if size > MOST_EDGE][:MOST_NAMED]:
            if visitor.fits("long", size + 1):
                visitor.visit(ladder.long(size + 1))
            visitor.visit(ladder.ids(size + 1))
        visitor.first("long", ladder.long, FAR_LENGTHS)
        visitor.first("many", lambda size: ladder.requests(size, IDLE), FAR_COUNTS[1:])
        visitor.first("padded", lambda size: ladder.padded(size, size // 4 + 1), FAR_LENGTHS)
        visitor.first("wide", ladder.wide, FAR_LENGTHS)
        visitor.first("many", lambda size: ladder.requests(size, IDLE), FAR_COUNTS[:1])
        self._beyond(ladder)

    def _crowds(self, ladder: Ladder) -> None:
        """Examine wide tables, ranks, runs of empty requests, and many requests that are not short.

        They have work of their own: large options have often taken all that the tour has.
        """
        visitor = self.visitor
        with visitor.own_work(CROWDS):
            visitor.first("roomy", ladder.roomy, ROOM)
            visitor.first("lulls", ladder.lulls, LULLS)
            visitor.first("spare", ladder.spare, SPARE)
            if (ranks := ladder.on_ranks(WORLDS[1])) is not None:
                visitor.visit(ranks.large_blocks())
                visitor.first("long on ranks", ranks.long, LENGTHS)
                visitor.first("padded on ranks", lambda size: ranks.padded(size, size // 2 + 1), COUNTS)
                visitor.first("busy on ranks", ranks.busy, COUNTS)
            visitor.first("busy", ladder.busy, COUNTS)
            for case in valued(ladder, LARGE_WORLD, ("world",)):
                visitor.visit(case)
            for drafts in DRAFTED:
                visitor.visit(drafted(ladder, *drafts))
            for case in valued(ladder, MANY_HEADS, ("num_heads",)):
                visitor.visit(case, lent=LENT * visitor.work)
            visitor.visit(ladder.bounded(FAR_BOUND))
            for lens in CUTS:
                visitor.visit(cut(ladder, *lens))

    def _alike(self, ladder: Ladder) -> None:
        """Examine steps of one kind, with work of their own too; each takes a share of it at most."""
        sees_requests = self._sees_requests
        visits = [(name, name, ladder) for name in KINDS if sees_requests or name in OF_TOKENS]
        if sees_requests and (ranks := ladder.on_ranks(WORLDS[0])) is not None:
            visits += [(name, f"{name}, on ranks", ranks) for name in ON_RANKS]
        with self.visitor.own_work(ALIKE if self.visitor.is_timed else 2 * ALIKE):
            for i, (name, kind, rungs) in enumerate(visits):
                build, sizes = KINDS[name]
                share = min(FAIR / (len(visits) - i), 1.0)
                self.visitor.first(kind, partial(build, rungs), sizes, share)

    def _served(self, ladder: Ladder) -> None:
        """Examine each kind of step under the options of each kind of model; all have a share of own work."""
        if not self._sees_requests:
            return
        models = self._models(ladder)
        # Each model and each step comes early: the work may not be enough for all pairs.
        turns = product(range(len(models)), enumerate(STEPS))
        visits = [(j, step, *models[(i + j) % len(models)]) for j, (i, step) in turns]
        with self.visitor.own_work(SERVED if self.visitor.is_timed else 2 * SERVED):
            for i, (turn, step, name, model) in enumerate(visits):
                share = min(FAIR / (len(visits) - i), 1.0)
                sizes = MANY_SERVED[turn % len(MANY_SERVED)]
                build = partial(STEPS[step], replace(model, turn=i))
                self.visitor.first(f"{step}, {name}", build, sizes, share)

    def _far_served(self, ladder: Ladder) -> None:
        """Examine the longest context of each kind of model, with work of their own."""
        features = self.visitor.examiner.binding.operation.features
        if not self._sees_requests or not features.isdisjoint(WEIGHTY - LISTING):
            return
        models = self._models(ladder)[::-1]  # those without options last
        with self.visitor.own_work(FAR if self.visitor.is_timed else 2 * FAR):
            for i, (name, model) in enumerate(models):
                share = min(EVEN / (len(models) - i), 1.0)
                self.visitor.first(f"far, {name}", partial(far, replace(model, turn=i)), FAR_SERVED, share)

    def _composed(self, ladder: Ladder) -> None:
        """Examine steps put together from aspects, of one model after the other, with work of their own."""
        if not self._sees_requests:
            return
        models = self._models(ladder, MORE_MODELS)
        with self.visitor.own_work(COMPOSED if self.visitor.is_timed else 2 * COMPOSED):
            left_out, most_left_out = 0, max(LEAST_LEFT_OUT, len(models))
            for turn in range(NUM_COMPOSED):
                share = min(FAIR / (NUM_COMPOSED - turn), 1.0)
                name, model = models[turn % len(models)]
                build = partial(composed, replace(model, turn=turn))
                fits = self.visitor.first(f"composed {turn}, {name}", build, MOST_COMPOSED, share)
                left_out = 0 if fits else left_out + 1
                if left_out == most_left_out:  # to build them takes longer than the others
                    return

    def _models(
        self, ladder: Ladder, models: Mapping[str, Mapping[str, Any]] = MODELS
    ) -> list[tuple[str, Served]]:
        """Return the models that differ, by name; they build no steps that are too much work."""
        admits = self.visitor.admits
        return [(name, replace(model, admits=admits)) for name, model in served(ladder, models)]

    @property
    def _sees_requests(self) -> bool:
        """Whether requests differ for the function."""
        shows = self.visitor.examiner.verdict.shows
        return any(name.startswith(("prefill", "decode")) for name in shows)

    def _exact(self, ladder: Ladder) -> None:
        """Examine what is exactly as large as a size that the function shows, or as many pages or drafts.

        Last a sum past those that fp32 counts, where it takes little. All this has work of its own.
        """
        visitor = self.visitor

        def idle(count: int) -> Case | None:
            return ladder.requests(count, IDLE)

        with visitor.own_work(EXACT):
            for size in self.named[:MOST_NAMED]:
                if size <= MOST_COUNT:
                    visitor.visit(drafted(ladder, size, 5))
                elif size <= MOST_EDGE:
                    visitor.visit(ladder.crowd(size))
                elif visitor.fits("long", size + 1):
                    visitor.visit(ladder.tokens(size, 0))
                if MOST_EDGE < size < FAR_COUNTS[0]:
                    visitor.beyond("many", idle, size + 1, LENT * visitor.work)
                visitor.visit(ladder.fresh(size + 1))
            binding = visitor.examiner.binding
            if binding.operation.features.isdisjoint(WEIGHTY):
                case = heavy(ladder, HEAVY)
                if case is not None and num_elements(binding.forms.values(), case) < HEAVY:
                    visitor.visit(case)

    def _beyond(self, ladder: Ladder) -> None:
        """Examine one case of each kind beyond usual tiles and types, if only smaller ones were examined."""
        features = self.visitor.examiner.binding.operation.features
        option = "window" if "min_window_columns" in features else "topk"
        builds: dict[str, Callable[[int], Case | None]] = {
            "deep": ladder.deep,
            "requests": lambda size: ladder.requests(size, IDLE),
            "crowd": ladder.crowd,
            "tokens": lambda size: ladder.tokens(size, 0),
            "listed": lambda size: listed(ladder, option, LISTED, size),
            "selections": lambda size: listed(ladder, option, LARGEST_LISTED[option], size),
            "broad": lambda size: ladder.broad(*BROAD[0][:2], size),
            **{name: partial(KINDS[name][0], ladder) for name in (MIXED, ROUTED)},
        }
        self.visitor.take_longer()
        for name, kind, size, times in BEYOND:
            lent = min(times * self.visitor.work, MOST_LENT)
            self.visitor.beyond(kind, builds[name], size, lent)

    def _far(self, ladder: Ladder) -> None:
        """Examine long contexts, on ranks too, and what is far beyond options that no output lists."""
        visitor, in_runs = self.visitor, ladder.in_runs(FAR_WORLD)
        for rungs in (ladder, *map(ladder.on_ranks, WORLDS), in_runs):
            if rungs is not None:
                visitor.first("far", rungs.far, FAR_CONTEXTS)
        lent = LENT * visitor.work if visitor.is_timed else 0.0
        for option, value in SEEN.items():
            visitor.visit(behind(ladder, BEHIND, option, value), lent=lent)
        if visitor.examiner.binding.operation.features.isdisjoint(LISTING):
            for case in valued(ladder, LONG_WINDOW, ("window",)):
                visitor.visit(case)
            visitor.visit(selected(ladder, *SELECTED))
