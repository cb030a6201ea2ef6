"""Traces of decodes that grow, and of what a key that foresees the next step takes for growth."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from cumae.oracle import Case, Trace
from cumae.properties.cases.draws import edited
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.alike import telling_of, traced
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder

GROWING = (18, 33, 50, 70, 21, 37, 55, 39, 20, 52, 66, 34, 49, 23, 17, 68, 71, 36, 54, 19)
"""Cached tokens of decodes, each of which has its last page for twelve steps more."""
MIDDLE = (6, 9)
"""Two of them that are neither the first, the last nor the longest."""
COUNTED = 258
"""Steps of a trace that is long enough for a counter in a byte."""
STEADY, LARGE = 67, 64
"""How many decodes grow for long, and their page size: each has its last page to the end."""
VERIFYING = 19
"""Decodes that verify drafts in several steps."""


def shrunk_again(ladder: Ladder) -> Trace | None:
    """Return a trace of three sizes in turns, for more steps than a byte counts.

    Three divides no power of two: a step is smaller than the one before wherever such a counter begins anew.
    """
    plain = ladder.unlimited
    turns = [plain.step([("prefill", 3, count)], seed=count, padding=(0, 0)) for count in (3, 2, 1)]
    return traced([turns[k % 3] for k in range(COUNTED)])


def advanced(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes; in each step, every request has one token more than in the step before.

    In every second step something else changes as well: two requests in the middle grow by other numbers with
    the same sum; or one of them has another last page, or its pages in falling order.
    """
    one, other = MIDDLE
    steps = [_grown_by(ladder, 0)]
    for k, changes in enumerate(({one: 2, other: -2}, {one: 1, other: -1}, {}, {})):
        straight, twisted = _grown_by(ladder, 2 * k + 1), _grown_by(ladder, 2 * k + 2, changes)
        if twisted is not None and not changes and one < len(twisted.batch.requests):
            twisted = _with_other_pages(twisted, one, in_order=k == 2)
        steps += [straight, twisted]
    return traced(steps)


def steady(telling: Ladder) -> Trace | None:
    """Return decodes that grow by a token in several steps in a row, and then by others with the same sum.

    After the last run, one has another last page.
    """
    one, other = MIDDLE
    block_size = telling.nearest_block(LARGE)

    def grown(more: int, changes: Mapping[int, int]) -> Case | None:
        contexts = [LARGE * (2 + b % 3) + 1 + GROWING[b % len(GROWING)] % 20 for b in range(STEADY)]
        lens: list[Lens] = [("decode", c + more + changes.get(b, 0), 1) for b, c in enumerate(contexts)]
        return telling.step(lens, seed=len(lens), padding=(0, 0), block_size=block_size)

    steps: list[Case | None] = []
    for run, changes in ((5, {one: 2, other: -2}), (9, {one: 1, other: -1}), (17, {})):
        steps += [grown(len(steps) + k, {}) for k in range(run)]
        twisted = grown(len(steps), changes)
        if twisted is not None and not changes and one < len(twisted.batch.requests):
            twisted = _with_other_pages(twisted, one, in_order=True)
        steps.append(twisted)
    return traced(steps)


def verified_unevenly(ladder: Ladder) -> Trace | None:
    """Return steps of verified drafts: all are accepted, then as many of each request as it happens."""
    contexts, steps = [130 + 7 * b for b in range(VERIFYING)], []
    for taken in ((4,), (1, 4, 2, 3, 4, 1, 3, 2, 4), (2,), (4, 1, 3, 2, 4, 2, 1, 4, 4), (4,)):
        lens: list[Lens] = [("decode", context, 4) for context in contexts]
        steps.append(ladder.step(lens, seed=VERIFYING, padding=(0, 0)))
        contexts = [context + taken[b % len(taken)] for b, context in enumerate(contexts)]
    return traced(steps)


def given_back(ladder: Ladder) -> Trace | None:
    """Return steps whose rejected drafts had a page of their own: it is given back, and another one taken.

    Each request gets the page that the next one gave back.
    """
    plain = ladder.without("world", "missing_blocks").unlimited
    lens: list[Lens] = [("decode", (1 + b) * plain.usual_block - 2, 3) for b in range(5)]
    first = plain.step(lens, seed=5, padding=(0, 0))
    if first is None:
        return None
    held = [r.block_ids[: first.batch.num_live_blocks(r)] for r in first.batch.requests]
    last = [ids[-1:] for ids in held]
    steps = []
    for taken, new, pages in (
        (0, 3, held),
        (1, 1, [ids[:-1] for ids in held]),
        (2, 1, [ids[:-1] + other for ids, other in zip(held, last[1:] + last[:1], strict=True)]),
    ):
        requests = [
            replace(r, context_len=r.context_len + taken, query_len=new, block_ids=ids)
            for r, ids in zip(first.batch.requests, pages, strict=True)
        ]
        steps.append(valid(partial(edited, first, requests, first.layout.row_index)))
    return traced(steps)


def grown(ladder: Ladder) -> Trace | None:
    """Return a step of two short requests, one of more requests and wider tables, and the first again."""
    few = ladder.step([("decode", 3, 1), ("prefill", 0, 2)], seed=2, padding=(0, 0))
    lens = uneven_decodes(40, 20, spread=700)
    return traced([few, ladder.step(lens, seed=40, padding=(0, 0)), few])


def _grown_by(ladder: Ladder, more: int, besides: Mapping[int, int] | None = None) -> Case | None:
    """Return decodes that have grown by ``more`` tokens; ``besides``: what single ones have in addition."""
    telling = telling_of(ladder)
    contexts = [context + more + (besides or {}).get(b, 0) for b, context in enumerate(GROWING)]
    lens: list[Lens] = [("decode", context, 1) for context in contexts]
    return telling.step(lens, seed=len(lens), padding=(0, 0))


def _with_other_pages(step: Case, b: int, *, in_order: bool) -> Case | None:
    """Return the step with another last page of a request, or with its pages in falling order."""
    requests = list(step.batch.requests)
    ids = requests[b].block_ids
    free = 1 + max((max(request.block_ids, default=-1) for request in requests), default=-1)
    last = step.batch.num_live_blocks(requests[b]) - 1
    other = tuple(free if k == last else i for k, i in enumerate(ids)) if in_order else ids[::-1]
    requests[b] = replace(requests[b], block_ids=other)
    return valid(partial(edited, step, requests, step.layout.row_index))
