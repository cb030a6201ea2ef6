"""Traces of a batch whose requests end, arrive, take turns, or are preempted and computed again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_from

from cumae.oracle import Case, Trace
from cumae.properties.cases.alike import telling_of, traced
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.draws import edited, permuted
from cumae.properties.cases.ladder import Ladder
from cumae.properties.cases.reducer import valid

RUNNING, ARRIVING = 36, 3
"""Requests of the first step, and those that come later."""
PAGE, LAST = 64, 12
"""The usual page size, and the most tokens that a request grows by: its last page has room for them."""


def churned(ladder: Ladder) -> Trace | None:
    """Return a trace of decodes that all grow by a token from step to step, and of what else happens to them.

    Two end while one arrives, and the last moves to the place of one; two others are replaced; two parts of
    the batch take turns; one is preempted, and comes back at its old length in other pages.
    """
    telling = telling_of(ladder)
    size = min(telling.sizes, key=lambda size: abs(size - PAGE))
    room = max(size - LAST - 1, 1)
    contexts = [size * (b % 3) + 1 + mixed(b) % room for b in range(RUNNING + ARRIVING)]
    lens: list[Lens] = [("decode", context_len, 1) for context_len in contexts]
    step = telling.step(lens, seed=len(lens), padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) < len(lens):
        return None
    first = [*range(RUNNING)]
    fewer = _replaced(first, {4: RUNNING, 20: RUNNING - 1})[: RUNNING - 1]
    replaced = _replaced(fewer, {7: RUNNING + 1, 11: RUNNING + 2})
    part, other = replaced[:20], replaced[20:]
    steps = [(first, 0), (first, 1), (fewer, 2), (fewer, 3), (replaced, 4), (replaced, 5)]
    steps += [(part, 6), (other, 6), (part, 7), (other, 7), (part, 8), (replaced, 9)]
    without = [*replaced[:5], *replaced[6:]]
    made = [_grown_by(step, *one) for one in (*steps, (without, 10), (replaced, 11))]
    return traced([*made[:-1], _again(made[-1], 5, 2), _grown_by(step, replaced, LAST)])


def behind_a_prompt(ladder: Ladder) -> Trace | None:
    """Return a step of decodes before and behind one of a long prompt, which fills more of each buffer."""
    telling = telling_of(ladder)
    lens: list[Lens] = [("decode", 65 + mixed(b) % 300, 1) for b in range(19)]
    decodes = telling.step(lens, seed=19, padding=(0, 0))
    return traced([decodes, telling.step([("prefill", 3, 2_100)], seed=1, padding=(0, 0)), decodes])


def verified_in_turns(ladder: Ladder) -> Trace | None:
    """Return steps of as many new tokens and drafts, which other requests have in each second one."""
    lens: list[Lens] = [("decode", 40 + 6 * b, 4) for b in range(13)]
    step = (ladder.having("max_drafts", 3) or ladder).step(lens, seed=13, padding=(0, 0))
    if step is None:
        return None
    order = [*range(len(step.batch.requests))][::-1]
    return traced([step, valid(partial(permuted, step, order)), step])


def _replaced(numbers: Sequence[int], others: dict[int, int]) -> list[int]:
    return [others.get(place, number) for place, number in enumerate(numbers)]


def _grown_by(step: Case, numbers: Sequence[int], more: int) -> Case | None:
    """Return the step of these requests, each with its row of the table, and ``more`` tokens behind them."""
    requests = [step.batch.requests[b] for b in numbers]
    grown = [replace(request, context_len=request.context_len + more) for request in requests]
    rows = step.layout.row_index
    return valid(partial(edited, step, grown, None if rows is None else tuple(rows[b] for b in numbers)))


def _again(step: Case | None, b: int, behind: int) -> Case | None:
    """Return the step with a request that is so many tokens behind the others, in other pages."""
    if step is None:
        return None
    requests = list(step.batch.requests)
    free = count_from(1 + max((max(r.block_ids, default=-1) for r in requests), default=-1))
    own, context_len = requests[b].block_ids, requests[b].context_len - behind
    requests[b] = replace(requests[b], context_len=context_len, block_ids=tuple(next(free) for _ in own))
    return valid(partial(edited, step, requests, step.layout.row_index))
