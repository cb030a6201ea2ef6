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

NEAR = 512
"""A token selects all of its keys, so that each length matters."""
T = TypeVar("T")

DECODES = (11, 29, 13, 10, 40, 23, 1, 5, 6, 35, 17, 31)
"""Cached tokens of decodes."""
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


def _in_turns(base: Sequence[T], others: Iterable[Mapping[int, T]]) -> Iterator[list[T]]:
    """Yield the base before and after each of the others."""
    yield [*base]
    for other in others:
        yield [other.get(i, each) for i, each in enumerate(base)]
        yield [*base]


def collisions(ladder: Ladder) -> Iterator[Trace]:
    """Yield a trace of decodes and one of chunks, in which each second step is the same.

    The host knows the lengths.
    """
    selecting = (ladder.having("topk", NEAR) or ladder).without("host_lens")
    decodes: list[Sequence[Lens]] = []
    for context_lens in _in_turns(DECODES, OTHER_DECODES.values()):
        decodes.append([("decode", context_len, 1) for context_len in context_lens])
    chunks: list[Sequence[Lens]] = []
    for lens in _in_turns(CHUNKS, OTHER_CHUNKS.values()):
        chunks.append([("prefill", *each) for each in lens])
    for steps in (decodes, chunks):
        trace = _traced([selecting.step(step, seed=len(step), padding=(0, 0)) for step in steps])
        if trace is not None:
            yield trace


def changed_alone(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return three steps of ``count`` decodes; they are alike, but one has a cached token more in between.

    A token selects all of its keys, so that each length matters, and the host knows the lengths.
    """
    selecting = (ladder.having("topk", NEAR) or ladder).without("host_lens")
    steps: list[Case | None] = []
    for more in (0, 1, 0):
        contexts = [1 + mixed(b) % 32 + more * (b == at) for b in range(count)]
        lens: list[Lens] = [("decode", context, 1) for context in contexts]
        steps.append(selecting.step(lens, seed=count, padding=(0, 0)))
    return _traced(steps)


def exchanged(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return steps of ``count`` decodes: two late ones exchange new tokens, cached ones, or both."""
    selecting = (ladder.having("topk", NEAR) or ladder).without("host_lens")
    steps: list[Case | None] = []
    usual = ((7, 1), (9, 2))
    alike = ((7, 1), (9, 1))
    turns = (usual, ((7, 2), (9, 1)), usual, ((9, 1), (7, 2)), usual, usual[::-1], usual, alike, alike[::-1])
    for first, second in turns:
        lens: list[Lens] = [("decode", 1 + mixed(b) % 30, 1) for b in range(count)]
        lens[at : at + 2] = [("decode", *first), ("decode", *second)]
        steps.append(selecting.step(lens, seed=count, padding=(0, 0)))
    return _traced(steps)


def in_other_blocks(ladder: Ladder) -> Trace | None:
    """Return a trace in which each second step is the same; the others have its lengths, in other blocks.

    One of them has no tokens. Before the last step, the host has no lengths for two steps.
    """
    step = ladder.without("host_lens").unlimited.step(PAGED, seed=len(PAGED), padding=(0, 0))
    if step is None:
        return None
    requests, rows = step.batch.requests, step.layout.row_index
    steps = [step]
    for others in (*_renamed(step.batch), [replace(r, query_len=0) for r in requests]):
        changed = valid(partial(edited, step, others, rows))
        if changed is not None:  # else blocks would be shared in the wrong way
            steps += [changed, step]
    fewer = edited(step, [*requests[:-1], replace(requests[-1], query_len=1)], rows)
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
    of 33; at last those of one request alone.
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


def _traced(steps: Sequence[Case | None]) -> Trace | None:
    """Return the trace of these steps with the first one's options, None if a domain has not all of them."""
    found = [step for step in steps if step is not None]
    if not found or len(found) < len(steps):
        return None
    return valid(lambda: leveled([replace(step, options=found[0].options) for step in found]))
