"""Steps that a weak key takes for each other: sums, sorted lengths, a checksum or blocks are the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from cumae.oracle import Batch, Case, Request, Trace, leveled
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.draws import edited, permuted
from cumae.properties.cases.ladder import Ladder
from cumae.properties.cases.reducer import valid

NEAR, FAR = 512, 4_096
"""A token selects all of its keys, so that each length matters, also where contexts are long."""
T = TypeVar("T")

DECODES = (11, 29, 13, 10, 40, 23, 1, 5, 6, 35, 17, 31, 22, 3, 8, 27, 2, 19, 12, 26)
"""Cached tokens of decodes, of more than a tile of them."""
OTHER_DECODES: Mapping[str, Mapping[int, int]] = {
    "two change places: all but the order is the same": {0: 29, 1: 11},
    "the sum, the first and the last": {4: 41, 5: 22},
    "sums weighted by place, as in a checksum": {3: 11, 4: 38, 5: 24},
    "sums weighted by the square of the place": {4: 41, 5: 20, 6: 4, 7: 4},
    "the sum, and that of squares": {6: 2, 7: 3, 8: 7},
    "the sum, and the bits in which an odd number of lengths is set": {2: 15, 3: 8},
    "the last eight bits": {1: 29 + 256},
    "the digits one after the other": {10: 173, 11: 1},
}
"""What stays the same, and the lengths that change."""
PAGED: Sequence[Lens] = (
    ("decode", 70, 1),
    ("prefill", 33, 5),
    ("decode", 49, 1),
    ("prefill", 0, 40),
    ("decode", 650, 1),
    ("decode", 65, 2),
)
"""Requests of several pages each; one has more than a tile of them."""
NEW, LONG = 3, 4
"""The one whose pages are all new, and the longest."""
ROWS = 140
"""Rows of a table beyond those of a step's requests, more than two tiles of rows."""
KEPT = ((0, 0), (1, 0), (0, 1), (1, 1), (33, 0))
"""Pages at the begin and at the end of a request that stay, where the others change."""

CHUNKS = ((10, 3), (20, 1), (7, 5), (0, 4), (15, 0), (9, 2))
"""Cached and new tokens of chunks."""
OTHER_CHUNKS: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "lengths after the step": {0: (11, 2), 1: (19, 2)},
    "cached tokens, and the sum of new ones": {0: (10, 1), 1: (20, 3)},
    "new tokens, and the sum of cached ones": {0: (20, 3), 1: (10, 1)},
    "all but the place of the idle one": {4: (9, 2), 5: (15, 0)},
}
GROWING = (18, 33, 50, 70, 21, 37, 55, 39, 20, 52, 66, 34, 49, 23, 17, 68, 71, 36, 54, 19)
"""Cached tokens of decodes, each of which has its last page for twelve steps more."""
MIDDLE = (6, 9)
"""Two of them that are neither the first, the last nor the longest."""
LARGE = 64
"""The page size of decodes that grow for long: each has its last page to the end."""


def _telling(ladder: Ladder, topk: int = NEAR) -> Ladder:
    """Return the ladder of steps in which each length matters: a token sees all of its keys, each by itself.

    The host knows the lengths. ``topk``: the keys that a token sees at most.
    """
    selecting = ladder.having("topk", topk) or ladder
    return selecting.without("host_lens", "compress_ratio", "key_scope").unlimited


def _in_turns(base: Sequence[T], others: Iterable[Mapping[int, T]]) -> Iterator[list[T]]:
    """Yield the base before and after each of the others."""
    yield [*base]
    for other in others:
        yield [other.get(i, each) for i, each in enumerate(base)]
        yield [*base]


def collisions(ladder: Ladder) -> Iterator[Trace]:
    """Yield a trace of decodes and one of chunks, in which each second step is the same."""
    telling = _telling(ladder)
    decodes: list[Sequence[Lens]] = []
    for context_lens in _in_turns(DECODES, OTHER_DECODES.values()):
        decodes.append([("decode", context_len, 1) for context_len in context_lens])
    chunks: list[Sequence[Lens]] = []
    for lens in _in_turns(CHUNKS, OTHER_CHUNKS.values()):
        chunks.append([("prefill", *each) for each in lens])
    without_drafts = telling.having("max_drafts", 0) or telling
    for steps, rungs in ((decodes, telling), (chunks, without_drafts)):
        trace = _traced([rungs.step(step, seed=len(step), padding=(0, 0)) for step in steps])
        if trace is not None:
            yield trace


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
    return _traced(steps)


def steady(ladder: Ladder) -> Trace | None:
    """Return decodes that grow by a token in several steps in a row, and then by others with the same sum.

    After the last run, one has another last page.
    """
    telling, (one, other) = _telling(ladder), MIDDLE
    block_size = min(telling.sizes, key=lambda size: abs(size - LARGE))

    def grown(more: int, changes: Mapping[int, int]) -> Case | None:
        contexts = [LARGE * (b % 3) + 1 + context % 20 for b, context in enumerate(GROWING)]
        lens: list[Lens] = [("decode", c + more + changes.get(b, 0), 1) for b, c in enumerate(contexts)]
        return telling.step(lens, seed=len(lens), padding=(0, 0), block_size=block_size)

    steps: list[Case | None] = []
    for run, changes in ((5, {one: 2, other: -2}), (9, {one: 1, other: -1}), (17, {})):
        steps += [grown(len(steps) + k, {}) for k in range(run)]
        twisted = grown(len(steps), changes)
        if twisted is not None and not changes and one < len(twisted.batch.requests):
            twisted = _with_other_pages(twisted, one, in_order=True)
        steps.append(twisted)
    return _traced(steps)


def in_other_phases(scope: str, ladder: Ladder) -> Trace | None:
    """Return steps of the same lengths, in which one request is a decode, a chunk, and a decode again.

    ``scope``: the requests whose keys count, where it may be chosen.
    """
    scoped = _telling(ladder.having("key_scope", scope) or ladder)
    steps = []
    for phase in ("decode", "prefill", "decode"):
        lens: list[Lens] = [("decode", 5, 1), ("decode", 40, 1), (phase, 17, 1), ("prefill", 9, 3)]
        steps.append(scoped.step(lens, seed=4, padding=(0, 0)))
    return _traced(steps)


def verified_unevenly(ladder: Ladder) -> Trace | None:
    """Return steps of verified drafts: all are accepted, then as many of each request as it happens."""
    contexts, steps = [40 + 7 * b for b in range(9)], []
    for taken in ((4,) * 9, (1, 4, 2, 3, 4, 1, 3, 2, 4), (2,) * 9, (4, 1, 3, 2, 4, 2, 1, 4, 4), (4,) * 9):
        lens: list[Lens] = [("decode", context, 4) for context in contexts]
        steps.append(ladder.step(lens, seed=9, padding=(0, 0)))
        contexts = [context + more for context, more in zip(contexts, taken, strict=True)]
    return _traced(steps)


def changed_alone(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return three steps of ``count`` decodes; they are alike, but one has a cached token more in between."""
    telling = _telling(ladder)
    steps: list[Case | None] = []
    for more in (0, 1, 0):
        contexts = [1 + mixed(b) % 32 + more * (b == at) for b in range(count)]
        lens: list[Lens] = [("decode", context, 1) for context in contexts]
        steps.append(telling.step(lens, seed=count, padding=(0, 0)))
    return _traced(steps)


def changed_far(ladder: Ladder) -> Trace | None:
    """Return steps of decodes of three tokens each; in every second one, one has a cached token more.

    One has more cached tokens than fp16 counts, and one nearly as many as a token selects.
    """
    steps = []
    for first, second in ((0, 0), (1, 0), (0, 0), (0, 1), (0, 0)):
        lens: list[Lens] = [
            ("decode", 2_048 + first, 3),
            ("decode", FAR - 3 + second, 3),
            ("decode", 3_001, 3),
        ]
        steps.append(_telling(ladder, FAR).step(lens, seed=len(lens), padding=(0, 0)))
    return _traced(steps)


def exchanged(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return steps of ``count`` decodes: two late ones exchange new tokens, cached ones, or both."""
    telling = _telling(ladder)
    steps: list[Case | None] = []
    usual = ((7, 1), (9, 2))
    alike = ((7, 1), (9, 1))
    turns = (usual, ((7, 2), (9, 1)), usual, ((9, 1), (7, 2)), usual, usual[::-1], usual, alike, alike[::-1])
    for first, second in turns:
        lens: list[Lens] = [("decode", 1 + mixed(b) % 30, 1) for b in range(count)]
        lens[at : at + 2] = [("decode", *first), ("decode", *second)]
        steps.append(telling.step(lens, seed=count, padding=(0, 0)))
    return _traced(steps)


def in_other_blocks(ladder: Ladder) -> Trace | None:
    """Return a trace in which each second step is the same; the others have its lengths, in other blocks.

    One of them has no tokens. Before the last step, the host has no lengths for two steps.
    """
    step = ladder.without("host_lens").unlimited.step(PAGED, seed=len(PAGED), padding=(0, 0))
    if step is None or not step.batch.requests:
        return None
    requests, rows = step.batch.requests, step.layout.row_index
    steps = [step]
    for others in (*_renamed(step.batch), [replace(r, query_len=0) for r in requests]):
        changed = valid(partial(edited, step, others, rows))
        if changed is not None:  # else blocks would be shared in the wrong way
            steps += [changed, step]
    one_token = [*requests[:-1], replace(requests[-1], query_len=1)]
    fewer = valid(partial(edited, step, one_token, rows)) or step
    hidden = [replace(one, layout=replace(one.layout, host_lens=False)) for one in (fewer, step)]
    return _traced([*steps, *(hidden if ladder.hides_lens else ()), step])


def reordered(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes of one length in a table that stays: requests and their rows change places.

    Only the map of rows changes.
    """
    if (step := _of_five(ladder, (0, 0))) is None:
        return None
    orders = ([4, 3, 2, 1, 0], [1, 2, 3, 4, 0], [0, 2, 1, 3, 4])
    others = [valid(partial(permuted, step, order)) for order in orders]
    return _traced([each for other in others for each in (step, other)] + [step])


def in_far_rows(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes of one length, whose rows of the table lie one or two tiles further off."""
    if (step := _of_five(ladder, (ROWS, 0))) is None:
        return None
    moved = (tuple(row + tile for row in step.layout.row_index or ()) for tile in (64, 128))
    others = [valid(partial(edited, step, list(step.batch.requests), rows)) for rows in moved]
    return _traced([each for other in others for each in (step, other)] + [step])


def of_one_size(ladder: Ladder, size: int, counts: Sequence[int]) -> Trace | None:
    """Return steps of so many decodes, padded to ``size`` requests and tokens, as a captured graph's."""
    steps = []
    for k, count in enumerate(counts):
        lens: list[Lens] = [("decode", 9 + mixed(b) % 30 + k, 1) for b in range(count)]
        padded = max(size - count, 0)
        steps.append(ladder.step(lens, seed=size, padding=(padded, padded)))
    return _traced(steps)


def grown(ladder: Ladder) -> Trace | None:
    """Return a step of two short requests, one of more requests and wider tables, and the first again."""
    few = ladder.step([("decode", 3, 1), ("prefill", 0, 2)], seed=2, padding=(0, 0))
    lens: list[Lens] = [("decode", 20 + mixed(b) % 700, 1) for b in range(40)]
    return _traced([few, ladder.step(lens, seed=40, padding=(0, 0)), few])


def _grown_by(ladder: Ladder, more: int, besides: Mapping[int, int] | None = None) -> Case | None:
    """Return decodes that have grown by ``more`` tokens; ``besides``: what single ones have in addition."""
    telling = _telling(ladder)
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


def _of_five(ladder: Ladder, room: tuple[int, int]) -> Case | None:
    """Return a case of five decodes of one length, each with a row of the table that is looked up."""
    for seed in range(8):
        step = ladder.step([("decode", 40, 1)] * 5, seed=seed, padding=(0, 0), room=room)
        if step is not None and min(step.layout.row_index or (-1,)) >= 0:
            return step
    return None


def _renamed(batch: Batch) -> Iterator[list[Request]]:
    """Yield the requests with other blocks.

    First all change, then all but the first or last of each, those between these two, and those behind a tile
    of 33, and those of one request alone. Then the longest exchanges a page in its middle for the last cached
    page of one request, and for a new one of another; at last one has its pages in falling order.
    """
    requests = batch.requests
    free = 1 + max((max(request.block_ids, default=-1) for request in requests), default=-1)
    starts = [free + sum(len(r.block_ids) for r in requests[:b]) for b in range(len(requests))]
    last = len(requests) - 1
    for kept, first in (*((kept, 0) for kept in KEPT), ((0, 0), last), ((0, 1), last)):
        changed = list(requests)
        for b in range(first, len(requests)):
            old, (head, tail) = requests[b].block_ids, kept
            stays = {*range(head), *range(batch.num_live_blocks(requests[b]) - tail, len(old) * (tail > 0))}
            ids = tuple(i if k in stays else starts[b] + k for k, i in enumerate(old))
            changed[b] = replace(requests[b], block_ids=ids)
        yield changed
    if last < LONG:
        return
    long = requests[LONG].block_ids
    for b, at in ((1, (requests[1].context_len - 1) // batch.tokens_per_block), (NEW, 1)):
        if long and 0 <= at < len(requests[b].block_ids):
            one, other = long[len(long) // 2], requests[b].block_ids[at]
            names = {one: other, other: one}
            yield [replace(r, block_ids=tuple(names.get(i, i) for i in r.block_ids)) for r in requests]
    yield [replace(r, block_ids=r.block_ids[::-1]) if b == 0 else r for b, r in enumerate(requests)]


def _traced(steps: Sequence[Case | None]) -> Trace | None:
    """Return the trace of these steps with the first one's options, None if a domain has not all of them."""
    found = [step for step in steps if step is not None]
    if not found or len(found) < len(steps):
        return None
    return valid(lambda: leveled([replace(step, options=found[0].options) for step in found]))
