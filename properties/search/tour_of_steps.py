"""The part of a tour that shows steps of one kind, and steps as engines serve them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from cumae.properties.search.visitor import Visitor
from cumae.properties.steps.around_options import (
    AROUND_SELECTIONS,
    AROUND_WINDOWS,
    BEYOND_SELECTIONS,
    BEYOND_WINDOWS,
    IN_ROUNDS,
)
from cumae.properties.steps.arrivals import ARRIVALS
from cumae.properties.steps.branches import BRANCHES
from cumae.properties.steps.captured_steps import CAPTURED
from cumae.properties.steps.circumstances import CIRCUMSTANCES
from cumae.properties.steps.coincidences import COINCIDING
from cumae.properties.steps.composed import composed
from cumae.properties.steps.crossed import CROSSED
from cumae.properties.steps.crossed_drafts import CROSSED_DRAFTS
from cumae.properties.steps.crowds_of_prompts import CROWDS
from cumae.properties.steps.deep_heads import DEEP_HEADS
from cumae.properties.steps.documents import DOCUMENTS
from cumae.properties.steps.each_format import EACH_PAGE, EACH_ROUTER, EACH_ROW
from cumae.properties.steps.equal_steps import EQUAL
from cumae.properties.steps.few_requests import FEW
from cumae.properties.steps.full_budgets import FULL
from cumae.properties.steps.headed_steps import OF_HEADS
from cumae.properties.steps.kinds import KINDS, OF_TOKENS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.large_buffers import LARGE_BUFFERS
from cumae.properties.steps.meeting_steps import MEETING
from cumae.properties.steps.mixed_steps import MIXED
from cumae.properties.steps.models import MORE_MODELS, served
from cumae.properties.steps.odd_values import ODD
from cumae.properties.steps.own_heads import OWN_HEADS
from cumae.properties.steps.rounds_of_ranks import ROUNDS
from cumae.properties.steps.served import STEPS, far
from cumae.properties.steps.small_pages import SMALL

ALIKE, PAGED, HEADED, SERVED, FAR, COMPOSED = 1.0, 0.3, 0.5, 1.3, 0.5, 1.0
"""The work of each part, as a share of the tour's: of steps of one kind, in small pages, with heads as of
models, as models are served, of their longest contexts, and of steps put together. Where examples are
counted, not seconds, it is twice as much."""
FAIR, EVEN = 8.0, 2.0
"""Of the work that is left for the kinds of steps, one kind takes at most so many times an equal part; kinds
that cost about as much as each other, less, so that the last of them are visited too."""
OF_ENGINES = (
    (ARRIVALS, 0.2, FAIR),
    (FULL, 0.3, FAIR),
    (MEETING, 0.2, FAIR),
    (BRANCHES, 0.1, FAIR),
    (DOCUMENTS, 0.2, FAIR),
    (COINCIDING, 0.1, FAIR),
    (EQUAL, 0.1, FAIR),
    (CROWDS, 0.2, FAIR),
    (DEEP_HEADS, 0.3, FAIR),
    (CAPTURED, 0.2, FAIR),
    (LARGE_BUFFERS, 0.1, FAIR),
    (ODD, 0.1, FAIR),
    (MIXED, 0.2, FAIR),
    (OWN_HEADS, 0.2, FAIR),
    (ROUNDS, 0.1, FAIR),
    (FEW, 0.2, FAIR),
    (CIRCUMSTANCES, 0.5, FAIR),
    (CROSSED, 0.7, FAIR),
    (CROSSED_DRAFTS, 0.8, EVEN),
    (BEYOND_SELECTIONS, 0.3, EVEN),
    (BEYOND_WINDOWS, 0.2, EVEN),
    (AROUND_SELECTIONS, 0.6, FAIR),
    (AROUND_WINDOWS, 0.3, FAIR),
    (IN_ROUNDS, 0.3, FAIR),
    (EACH_PAGE, 0.4, FAIR),
    (EACH_ROUTER, 1.2, FAIR),
    (EACH_ROW, 0.8, FAIR),
)
"""Parts of other steps of engines, the work of each, and how much of what is left one kind takes."""
LISTING = frozenset({"min_window_columns", "split_size", "select_beyond", "num_spare_tokens"})
"""Features of operations that list the keys of each token, or cut them into items."""
WEIGHTY = LISTING | {"row_format", "head_format", "router"}
"""Features of operations for which millions of cached tokens are too much."""
FAR_SERVED = (600_011, 200_003)
"""Cached tokens of the longest context of a model."""
MANY_SERVED = ((67, 37, 19), (45, 35, 11), (35, 21, 7))
"""Requests of steps of served models, in turns: the first of these that is not too much."""
NUM_COMPOSED, MOST_COMPOSED = 280, (261, 65, 16, 4)
"""Steps put together from aspects, and the most requests of one, if it is not too much."""
LEAST_LEFT_OUT = 6
"""After so many in a row that are too much, and one of each model, no more of them are built."""
WORLD = 2
"""The number of ranks of steps of one kind."""
ON_RANKS = ("decodes", "verified", "identical prompts", "one far", "decodes, then others")
"""Steps of one kind that also lie on ranks."""


def alike(visitor: Visitor, ladder: Ladder) -> None:
    """Examine steps of one kind, with work of their own; each takes a share of it at most."""
    names = [name for name in KINDS if sees_requests(visitor) or name in OF_TOKENS]
    without = {*OF_HEADS, *SMALL, *(name for kinds, *_ in OF_ENGINES for name in kinds)}
    visits = [(name, name, ladder) for name in names if name not in without]
    if sees_requests(visitor) and (ranks := ladder.on_ranks(WORLD)) is not None:
        visits += [(name, f"{name}, on ranks", ranks) for name in ON_RANKS]
    _examine(visitor, visits, ALIKE)


def in_small_pages(visitor: Visitor, ladder: Ladder) -> None:
    """Examine small steps in pages of each order and format, with work of their own."""
    if "head_format" in ladder.named:
        _examine(visitor, [(name, name, ladder) for name in SMALL], PAGED)


def lined_up(visitor: Visitor, ladder: Ladder) -> None:
    """Examine steps as a queue fills them and others of engines, in parts that have work of their own."""
    heads = OF_HEADS if "head_format" in ladder.named else {}
    for kinds, work, fair in (*OF_ENGINES, (heads, HEADED, EVEN)):
        visits = [(name, name, ladder) for name in kinds if sees_requests(visitor) or name in OF_TOKENS]
        _examine(visitor, visits, work, fair)


def _examine(
    visitor: Visitor, visits: Sequence[tuple[str, str, Ladder]], work: float, fair: float = FAIR
) -> None:
    """Examine steps of one kind each: the kind, a name and the ladder of it."""
    with visitor.own_work(_share(visitor, work)):
        for i, (name, kind, rungs) in enumerate(visits):
            build, sizes = KINDS[name]
            share = min(fair / (len(visits) - i), 1.0)
            visitor.first(kind, partial(build, rungs), sizes, share)


def of_models(visitor: Visitor, ladder: Ladder) -> None:
    """Examine each kind of step under the options of each kind of model; all have a share of own work."""
    if not sees_requests(visitor):
        return
    models = list(served(ladder))
    # Each model and each step comes early: the work may not be enough for all pairs.
    turns = product(range(len(models)), enumerate(STEPS))
    visits = [(j, step, *models[(i + j) % len(models)]) for j, (i, step) in turns]
    with visitor.own_work(_share(visitor, SERVED)):
        for i, (turn, step, name, model) in enumerate(visits):
            share = min(FAIR / (len(visits) - i), 1.0)
            sizes = MANY_SERVED[turn % len(MANY_SERVED)]
            build = partial(STEPS[step], replace(model, turn=i))
            visitor.first(f"{step}, {name}", build, sizes, share)


def far_of_models(visitor: Visitor, ladder: Ladder) -> None:
    """Examine the longest context of each kind of model, with work of their own."""
    features = visitor.examiner.binding.operation.features
    if not sees_requests(visitor) or not features.isdisjoint(WEIGHTY - LISTING):
        return
    models = list(served(ladder))[::-1]  # those without options last
    with visitor.own_work(_share(visitor, FAR)):
        for i, (name, model) in enumerate(models):
            share = min(EVEN / (len(models) - i), 1.0)
            visitor.first(f"far, {name}", partial(far, replace(model, turn=i)), FAR_SERVED, share)


def put_together(visitor: Visitor, ladder: Ladder) -> None:
    """Examine steps put together from aspects, of one model after the other, with work of their own."""
    if not sees_requests(visitor):
        return
    models = list(served(ladder, MORE_MODELS))
    with visitor.own_work(_share(visitor, COMPOSED)):
        left_out, most_left_out = 0, max(LEAST_LEFT_OUT, len(models))
        for turn in range(NUM_COMPOSED):
            share = min(FAIR / (NUM_COMPOSED - turn), 1.0)
            name, model = models[turn % len(models)]
            build = partial(composed, replace(model, turn=turn))
            fits = visitor.first(f"composed {turn}, {name}", build, MOST_COMPOSED, share)
            left_out = 0 if fits else left_out + 1
            if left_out == most_left_out:  # to build them takes longer than the others
                return


def sees_requests(visitor: Visitor) -> bool:
    """Return whether requests differ for the function."""
    return any(name.startswith(("prefill", "decode")) for name in visitor.examiner.verdict.shows)


def _share(visitor: Visitor, share: float) -> float:
    return share if visitor.is_timed else 2 * share
