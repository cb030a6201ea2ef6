"""Traces whose steps have the same lengths: in other blocks, in other rows of the table, in other layers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from cumae.oracle import SELECTION_ORDERS, Batch, Case, Phase, Request, Trace, leveled
from cumae.properties.cases.draws import edited, permuted
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.alike import traced
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

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
EXCHANGED = {LONG: (17, 19), NEW: (0, 1)}
"""By request: places of two pages that change places. A key of each fourth page of the longest misses it."""
VERIFYING, SEEDS = 8, (0, 1, 2, 0)
"""Decodes that verify drafts, and seeds of consecutive steps."""
KEPT = ((0, 0), (1, 0), (0, 1), (1, 1), (33, 0))
"""Pages at the begin and at the end of a request that stay, where the others change."""


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
    return traced([*steps, *(hidden if ladder.hides_lens else ()), step])


def reordered(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes of one length in a table that stays: requests and their rows change places.

    Only the map of rows changes.
    """
    if (step := _of_five(ladder, (0, 0))) is None:
        return None
    orders = ([4, 3, 2, 1, 0], [1, 2, 3, 4, 0], [0, 2, 1, 3, 4])
    others = [valid(partial(permuted, step, order)) for order in orders]
    return traced([each for other in others for each in (step, other)] + [step])


def in_far_rows(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes of one length, whose rows of the table lie one or two tiles further off."""
    if (step := _of_five(ladder, (ROWS, 0))) is None:
        return None
    moved = (tuple(row + tile for row in step.layout.row_index or ()) for tile in (64, 128))
    others = [valid(partial(edited, step, list(step.batch.requests), rows)) for rows in moved]
    return traced([each for other in others for each in (step, other)] + [step])


def in_other_layers(ladder: Ladder) -> Trace | None:
    """Return a trace of one step again and again, in which each layer selects other keys."""
    orders = ladder.domain.among("selection_order", SELECTION_ORDERS)
    if "selection_order" not in ladder.features or len(orders) < 2:
        return None
    if (step := ladder.unlimited.step(PAGED, seed=len(PAGED), padding=(0, 0))) is None:
        return None
    layers = [step.options.having(selection_order=order) for order in (*orders, orders[0])]
    return valid(lambda: leveled([replace(step, options=options) for options in layers]))


def with_another(name: str, ladder: Ladder) -> Trace | None:
    """Return a trace of one step again and again, in which the option ``name`` changes: twice, and back.

    ``draft_seed`` gives requests other drafts, ``selection_seed`` other selected keys, and ``workspace_gap``
    moves the keys in the workspace.
    """
    if any(ladder.seeded(name, seed) is None for seed in SEEDS):
        return None
    gathered = name == "workspace_gap"
    chosen = ladder.unlimited.preferring(max_drafts=4, topk=64, prefill_workspace=gathered)
    kind: Phase = "prefill" if gathered else "decode"
    lens: list[Lens] = [(kind, 80 + 9 * (b // 2), 5) for b in range(VERIFYING)]
    if (step := chosen.step(lens, seed=VERIFYING, padding=(0, 0))) is None:
        return None
    options = [step.options.having(**{name: seed}) for seed in SEEDS]
    return valid(lambda: leveled([replace(step, options=each) for each in options]))


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
    page of one request, and for a new one of another. At last one has its pages in falling order, or two of
    them change places: in the middle of the longest, and at the begin of a prompt.
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
    for b, (one, other) in EXCHANGED.items():
        changed = list(requests)
        changed[b] = with_exchanged(requests[b], one, other)
        yield changed


def with_exchanged(request: Request, one: int, other: int) -> Request:
    """Return the request in which two pages change places, if it has both."""
    ids = list(request.block_ids)
    if max(one, other) < len(ids):
        ids[one], ids[other] = ids[other], ids[one]
    return replace(request, block_ids=tuple(ids))
