"""Traces of a batch whose requests end, arrive, take turns, or are preempted and computed again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_from

from cumae.oracle import Case, Request, Trace
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, permuted
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.alike import traced
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder

RUNNING, ARRIVING, LONGEST = 68, 4, 50
"""Requests of the first step, those that come later, and the longest one, which ends before most."""
CROWD = 261
"""Requests of a crowd; the last sixty are those that change."""
DECODING, CHUNK, FEW = 12, 512, 16
"""Decodes beside chunks, tokens of a chunk, and selected keys of which all decodes have more."""
PAGE, LAST = 64, 12
"""The usual page size, and the most tokens that a request grows by: its last page has room for them."""


def churned(telling: Ladder) -> Trace | None:
    """Return a trace of decodes that all grow by a token from step to step, and of what else happens to them.

    Two end while one arrives, and the last moves to the place of one; two are replaced, and then the longest;
    two parts of the batch take turns; one is preempted, and comes back at its old length in other pages.
    """
    size = telling.nearest_block(PAGE)
    room = max(size - LAST - 1, 1)
    contexts = [size * (b % 3) + 1 + mixed(b) % room for b in range(RUNNING + ARRIVING)]
    contexts[LONGEST] += 3 * size
    lens: list[Lens] = [("decode", context_len, 1) for context_len in contexts]
    step = telling.step(lens, seed=len(lens), padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) < len(lens):
        return None
    first = [*range(RUNNING)]
    fewer = _replaced(first, {4: RUNNING, 20: RUNNING - 1})[: RUNNING - 1]
    replaced = _replaced(fewer, {7: RUNNING + 1, 11: RUNNING + 2})
    left = _replaced(replaced, {LONGEST: RUNNING + 3})
    part, other = left[:20], left[20:]
    steps = [(first, 0), (first, 1), (fewer, 2), (fewer, 3), (replaced, 4), (left, 5)]
    steps += [(part, 6), (other, 6), (part, 7), (other, 7), (part, 8), (left, 9)]
    without = [*left[:5], *left[6:]]
    made = [_grown_by(step, *one) for one in (*steps, (without, 10), (left, 11))]
    return traced([*made[:-1], _again(made[-1], 5, 2), _grown_by(step, left, LAST)])


def in_a_crowd(telling: Ladder) -> Trace | None:
    """Return a trace of hundreds of decodes that grow by a token, two of which change places on the way.

    Then one comes back in other pages, and at last two grow by other numbers with the same sum.
    """
    size = telling.nearest_block(PAGE)
    room = max(size - LAST - 1, 1)
    lens: list[Lens] = [("decode", size * (b % 3) + 2 + mixed(b) % room, 1) for b in range(CROWD)]
    step = telling.step(lens, seed=CROWD, padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) < CROWD:
        return None
    first, late = [*range(CROWD)], CROWD - 60
    turned = _replaced(first, {late: late + 1, late + 1: late})
    steps = [(first, 0), (first, 1), (turned, 2), (turned, 3)]
    made = [_grown_by(step, *one) for one in steps]
    again = _again(made[-1], late + 9, 0)
    return traced([*made, again, _leveled_out(again, late + 3, late + 20)])


def past_windows(window: int, ladder: Ladder) -> Trace | None:
    """Return steps of decodes beyond a window, which leave pages behind; then they have other pages."""
    limited = ladder.having("window", window)
    lens: list[Lens] = [("decode", window + 6 + 5 * b, 1) for b in range(DECODING)]
    step = None if limited is None else limited.step(lens, seed=window, padding=(0, 0))
    if step is None:
        return None
    made = [_grown_by(step, range(len(step.batch.requests)), -fewer) for fewer in (3, 2, 1, 0)]
    if (last := made[-1]) is None:
        return None
    others = _in_other_pages(last.batch.requests, last.batch.requests)
    return traced([*made[:-1], valid(partial(edited, last, others, last.layout.row_index))])


def behind_a_prompt(telling: Ladder, length: int) -> Trace | None:
    """Return a step of decodes before and behind one of a long prompt, which fills more of each buffer."""
    lens = uneven_decodes(19, 65, spread=300)
    decodes = telling.step(lens, seed=19, padding=(0, 0))
    return traced([decodes, telling.step([("prefill", 3, length)], seed=1, padding=(0, 0)), decodes])


def verified_in_turns(ladder: Ladder) -> Trace | None:
    """Return steps of as many new tokens and drafts, which other requests have in each second one."""
    lens: list[Lens] = [("decode", 40 + 6 * b, 4) for b in range(13)]
    step = (ladder.having("max_drafts", 3) or ladder).step(lens, seed=13, padding=(0, 0))
    if step is None:
        return None
    order = [*range(len(step.batch.requests))][::-1]
    return traced([step, valid(partial(permuted, step, order)), step])


def in_equal_chunks(telling: Ladder) -> Trace | None:
    """Return steps of one chunk each, alone and beside decodes: of one prompt, then of another in its place.

    All chunks are of one length, so that a step looks like the next chunk of the prompt before.
    """
    size = telling.nearest_block(PAGE)
    lens: list[Lens] = [("decode", size * (1 + b % 3) + b, 1) for b in range(DECODING)]
    lens += [("prefill", CHUNK, CHUNK)] * 2
    step = telling.step(lens, seed=DECODING, padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) < len(lens):
        return None
    requests = list(step.batch.requests)
    requests[DECODING:] = _in_other_pages(requests[DECODING:], requests)
    step = valid(partial(edited, step, requests, step.layout.row_index))
    if step is None:
        return None
    decodes, one, other = [*range(DECODING)], DECODING, DECODING + 1
    alone = [
        _begun(_grown_by(step, [b], 0), is_first)
        for b, is_first in ((one, True), (one, False), (other, True))
    ]
    beside = [
        _begun(_grown_by(step, [*decodes, b], more, but=b), is_first)
        for more, (b, is_first) in enumerate(((one, True), (one, False), (other, True), (one, True)))
    ]
    return traced([*alone, alone[0], *beside])


def in_other_hands(limited: Ladder) -> Trace | None:
    """Return steps of decodes that all end a group of keys: then others have their rows, in other pages."""
    size = limited.nearest_block(PAGE)
    lens: list[Lens] = [("decode", size + 3 + 4 * b, 1) for b in range(DECODING)]
    step = limited.step(lens, seed=DECODING, padding=(0, 0), block_size=size)
    grown = None if step is None else _grown_by(step, range(len(step.batch.requests)), 4)
    if grown is None:
        return None
    others = _in_other_pages(grown.batch.requests, grown.batch.requests)
    return traced([step, valid(partial(edited, grown, others, grown.layout.row_index)), step])


def saturated(ladder: Ladder) -> Trace | None:
    """Return steps of decodes that see more keys than are selected, whose drafts others have next."""
    selecting = ladder.having("topk", FEW)
    if selecting is None:
        return None
    lens: list[list[Lens]] = [
        [("decode", 70 + 7 * b + 3 * k, 1 + (b + k) % 2) for b in range(DECODING)] for k in range(3)
    ]
    return traced([selecting.step(one, seed=DECODING, padding=(0, 0)) for one in lens])


def beside_saturated(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return steps of decodes, a third of which see more keys than are selected, and the others fewer.

    One of the first kind changes places with the next one, and they come back.
    """
    selecting = ladder.having("topk", 4 * FEW)
    if selecting is None:
        return None
    lens: list[Lens] = [("decode", 20 + b % 28 if b % 3 else 100 + b, 1) for b in range(count)]
    turned = [*lens[:at], lens[at + 1], lens[at], *lens[at + 2 :]]
    return traced([selecting.step(one, seed=count, padding=(0, 0)) for one in (lens, turned, lens)])


def in_two_batches(telling: Ladder) -> Trace | None:
    """Return steps of two parts of the decodes in turns, all of which grow by a token each time.

    In the last two, one in the middle of a part is in other pages and shorter, and two change places.
    """
    size = telling.nearest_block(PAGE)
    room = max(size - LAST - 1, 1)
    lens: list[Lens] = [("decode", size * (b % 3) + 3 + mixed(b) % room, 1) for b in range(2 * DECODING)]
    step = telling.step(lens, seed=len(lens), padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) < len(lens):
        return None
    one, other = [*range(DECODING)], [*range(DECODING, 2 * DECODING)]
    made = [_grown_by(step, part, more) for more in (0, 1) for part in (one, other)]
    turned = _replaced(other, {4: DECODING + 6, 6: DECODING + 4})
    return traced([*made, _again(_grown_by(step, one, 2), 5, 2), _grown_by(step, turned, 2)])


def _begun(step: Case | None, is_first: bool) -> Case | None:
    """Return the step whose last request computes its first chunk, or the second."""
    if step is None or not is_first:
        return step
    requests = list(step.batch.requests)
    requests[-1] = replace(requests[-1], context_len=0)
    return valid(partial(edited, step, requests, step.layout.row_index))


def _replaced(numbers: Sequence[int], others: dict[int, int]) -> list[int]:
    return [others.get(place, number) for place, number in enumerate(numbers)]


def _grown_by(step: Case, numbers: Sequence[int], more: int, but: int = -1) -> Case | None:
    """Return the step of these requests, each with its row of the table, and ``more`` tokens behind them.

    ``but``: one that has not grown.
    """
    chosen = [(b, step.batch.requests[b]) for b in numbers]
    grown = [replace(r, context_len=r.context_len + more * (b != but)) for b, r in chosen]
    rows = step.layout.row_index
    return valid(partial(edited, step, grown, None if rows is None else tuple(rows[b] for b in numbers)))


def _again(step: Case | None, b: int, behind: int) -> Case | None:
    """Return the step with a request that is so many tokens behind the others, in other pages."""
    if step is None:
        return None
    requests = list(step.batch.requests)
    (requests[b],) = _in_other_pages([requests[b]], requests)
    requests[b] = replace(requests[b], context_len=requests[b].context_len - behind)
    return valid(partial(edited, step, requests, step.layout.row_index))


def _leveled_out(step: Case | None, one: int, other: int) -> Case | None:
    """Return the step in which one request has a token more, and another one fewer."""
    if step is None:
        return None
    requests = list(step.batch.requests)
    for b, more in ((one, 1), (other, -1)):
        requests[b] = replace(requests[b], context_len=requests[b].context_len + more)
    return valid(partial(edited, step, requests, step.layout.row_index))


def _in_other_pages(requests: Sequence[Request], beside: Sequence[Request]) -> list[Request]:
    """Return the requests in pages that none of the others has."""
    free = count_from(1 + max((max(r.block_ids, default=-1) for r in beside), default=-1))
    return [replace(r, block_ids=tuple(next(free) for _ in r.block_ids)) for r in requests]
