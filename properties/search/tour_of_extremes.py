"""The parts of a tour that show crowds, exact sizes, long contexts, and what lies beyond usual tiles."""

from collections.abc import Callable
from functools import partial

from cumae.oracle import Case
from cumae.properties.operations.outputs import num_elements
from cumae.properties.search.tour_of_steps import LISTING, WEIGHTY
from cumae.properties.search.visitor import IDLE, Visitor
from cumae.properties.steps.kinds import KINDS, ROUTED
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.option_sizes import cut, drafted, listed, selected, valued
from cumae.properties.steps.room import bounded, roomy, spare
from cumae.properties.steps.steps_of_one_kind import behind, heavy
from cumae.properties.steps.widths import broad, large_blocks

LENGTHS = (4_097, 2_049, 1_025, 513, 257, 129)
COUNTS = (1_027, 515, 259, 131, 67)
"""The first sizes tried of lengths, and of requests and padding: the largest for which there is work left.
Two requests or more lie beyond a tile: the first one's tokens may begin where they should."""
LENT = 2.5
"""Times the work of the tour, lent to the largest first number of requests: a program each is usual."""
FAR_COUNTS = (65_539, 16_387, 8_195, 4_099, 2_051)
"""The numbers of requests tried at the end, if the first ones leave work."""
MOST_NAMED, MOST_EDGE, MOST_COUNT = 8, 4_097, 1_025
"""Sizes of the function that are visited on both sides, up to this length and this many requests."""
CROWDS, EXACT = 0.3, 0.3
"""The work of crowds, wide tables and ranks, and that of exact sizes, as shares of the tour's."""
WORLDS = (2, 8)
"""The numbers of ranks in cases of long contexts."""
FAR_WORLD = 16
"""The number of ranks that take as many positions at a time as a block has."""
LARGE_WORLD = 67
MIXED = "decodes, then others"
ROWS, OWN_SCALES = "in rows of fp8", "a prefill of 8 slim heads in fp8_own"
HEADS = "a prefill of 8 heads"
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
    (ROWS, ROWS, 16_409, 3.5),
    (OWN_SCALES, OWN_SCALES, 8_209, 3.5),
    (HEADS, HEADS, 16_400, 3.5),
)
"""Cases of one size each, the kind of which a case as large makes it needless, and times the work of the tour
that is lent to it. A crowd has few tokens, for functions that take a program for each."""
MOST_LENT = 4.5
"""The most work that is lent to one of them."""
LISTED = 128
"""Keys that each token of such a case lists: a million places, more than a full GPU takes at a time."""
LARGEST_LISTED = {"window": 1_024, "topk": 2_048}
"""Keys that each of fewer tokens lists."""
ROOM = (391, 131)
"""Rows and columns of a table beyond the needed ones: engines size it for their longest request."""
LULLS = (2_051, 519, 263, 131)
"""Requests in a row without a new token: whole tiles of them."""
SPARE = (65_543, 8_195, 4_101)
"""Rows of buffers beyond the tokens of a small step."""
DRAFTED = ((64, 771), (300, 3))
"""Drafts of each request, and requests: more rows than 15 bits count are sampled, and more drafts of a
request than 8 bits count."""
MANY_HEADS = 67
"""Heads of a token, more than a tile of programs or of lanes."""
FAR_BOUND = 70_003
"""Tokens by which the host's bound exceeds every context, as where a graph was captured for the longest."""
CUTS = ((1, 5, 32_779), (3, 65_601, 71))
"""Chunk sizes, and the context and new tokens of a prefill: more chunks than int16 counts, and positions
that 16 bits do not hold, for chunks of which 2^16 is no multiple."""
FAR_CONTEXTS = (131_073, 8_193)
BEHIND, SEEN = 600_011, {"window": 128, "topk": 2, "row": 2}
"""A context of more pages than int16 counts, and what lets few of its keys, or few bytes of them, be read."""
LONG_WINDOW = 81_921
"""Keys of a window where none is listed: some models see nearly all of a long context."""
SELECTED = (2_048, 16_391)
"""Keys that a token selects, and the tokens of a step: their product passes 2^24, as in production."""
HEAVY = 2**20
"""Cached tokens of each of many decodes: their sum passes 2^24, up to which fp32 counts. It takes little if
the outputs have fewer elements than one of them has tokens."""
BROAD = ((8, 128, 1_100), (2, 16, 2_051))
"""Heads, the numbers of each, and tokens of a case."""


def with_idle(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests and a few padded ones."""
    return ladder.requests(count, IDLE)


def crowds(visitor: Visitor, ladder: Ladder) -> None:
    """Examine wide tables, ranks, runs of empty requests, and many requests that are not short.

    They have work of their own: large options have often taken all that the tour has.
    """
    with visitor.own_work(CROWDS):
        visitor.first("roomy", partial(roomy, ladder), ROOM)
        visitor.first("lulls", ladder.lulls, LULLS)
        visitor.first("spare", partial(spare, ladder), SPARE)
        if (ranks := ladder.on_ranks(WORLDS[1])) is not None:
            visitor.visit(large_blocks(ranks))
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
        visitor.visit(bounded(ladder, FAR_BOUND))
        for lens in CUTS:
            visitor.visit(cut(ladder, *lens))


def exact(visitor: Visitor, ladder: Ladder, named: tuple[int, ...]) -> None:
    """Examine what is exactly as large as a size that the function shows, or as many pages or drafts.

    Last a sum past those that fp32 counts, where it takes little. All this has work of its own.
    """
    binding = visitor.examiner.binding
    with visitor.own_work(EXACT):
        for size in named[:MOST_NAMED]:
            if size <= MOST_COUNT:
                visitor.visit(drafted(ladder, size, 5))
            elif size <= MOST_EDGE:
                visitor.visit(ladder.crowd(size))
            elif visitor.fits("long", size + 1):
                visitor.visit(ladder.tokens(size, 0))
            if MOST_EDGE < size < FAR_COUNTS[0]:
                visitor.beyond("many", partial(with_idle, ladder), size + 1, LENT * visitor.work)
            visitor.visit(ladder.fresh(size + 1))
        if binding.operation.features.isdisjoint(WEIGHTY):
            case = heavy(ladder, HEAVY)
            if case is not None and num_elements(binding.forms.values(), case) < HEAVY:
                visitor.visit(case)


def far(visitor: Visitor, ladder: Ladder) -> None:
    """Examine long contexts, on ranks too, and what is far beyond options that no output lists."""
    for rungs in (ladder, *map(ladder.on_ranks, WORLDS), ladder.in_runs(FAR_WORLD)):
        if rungs is not None:
            visitor.first("far", rungs.far, FAR_CONTEXTS)
    lent = LENT * visitor.work if visitor.is_timed else 0.0
    for option, value in SEEN.items():
        visitor.visit(behind(ladder, BEHIND, option, value), lent=lent)
    if visitor.examiner.binding.operation.features.isdisjoint(LISTING):
        for case in valued(ladder, LONG_WINDOW, ("window",)):
            visitor.visit(case)
        visitor.visit(selected(ladder, *SELECTED))


def beyond(visitor: Visitor, ladder: Ladder) -> None:
    """Examine one case of each kind beyond usual tiles and types, if only smaller ones were examined."""
    features = visitor.examiner.binding.operation.features
    option = "window" if "min_window_columns" in features else "topk"
    builds: dict[str, Callable[[int], Case | None]] = {
        "deep": ladder.deep,
        "requests": partial(with_idle, ladder),
        "crowd": ladder.crowd,
        "tokens": lambda size: ladder.tokens(size, 0),
        "listed": lambda size: listed(ladder, option, LISTED, size),
        "selections": lambda size: listed(ladder, option, LARGEST_LISTED[option], size),
        "broad": partial(broad, ladder, *BROAD[0][:2]),
        **{name: partial(KINDS[name][0], ladder) for name in (MIXED, ROUTED, ROWS, OWN_SCALES, HEADS)},
    }
    visitor.take_longer()
    for name, kind, size, times in BEYOND:
        visitor.beyond(kind, builds[name], size, min(times * visitor.work, MOST_LENT))
