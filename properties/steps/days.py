"""A trace of decodes as a day has it: in graphs of several sizes, beside a prompt, with drafts, paused."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_from

from cumae.oracle import Case, Request, Trace
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.alike import traced
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

PAGE, DECODING = 64, 12
"""The usual page size, and the decodes that run all day."""
REST = 14
"""A prompt arrives in two chunks, of as many tokens less than a page, or about as many more."""
BEFORE, ROOM = 5, 24
"""Tokens after which all decodes begin a page at once, and those for which each has pages to the end."""
DRAFTED, TAKEN = 4, (1, 4, 2, 3)
"""New tokens of a decode that verifies drafts, and how many of them are taken, request by request."""
PAUSED, LEAVING = 5, 3
"""The request that idles in one step, and the one that ends."""
GONE = -1
GRAPHS = ((4, 0), (12, 0), (0, 11), (0, 0), (3, 0), (0, 0), (3, 0), (11, 0), (0, 0), (3, 0), (3, 0), (4, 0))
"""Padded requests of each step, and padded tokens of one that has no padded requests."""


def a_day(ladder: Ladder) -> Trace | None:
    """Return steps of decodes that go on in their pages from step to step.

    Their graph changes its size; a prompt arrives in two chunks and decodes with them; all begin a
    page at once; they verify drafts, of which each takes others, before and behind a step without
    drafts; one is paused and goes on; another one ends.
    """
    verifying = ladder.having("max_drafts", DRAFTED - 1) or ladder
    size = verifying.nearest_block(PAGE)
    first = [size * (2 + b % 3) - BEFORE for b in range(DECODING)]
    chunks = size + REST - 1, max(size - REST, DRAFTED + 1)
    lens: list[Lens] = [("decode", cached + ROOM, 1) for cached in (*first, sum(chunks))]
    step = verifying.step(lens, seed=DECODING, padding=(0, 0), block_size=size)
    if step is None or len(step.batch.requests) <= DECODING:
        return None
    step = edited(step, _in_own_pages(step), step.layout.row_index)
    cached, steps, pads = [*first, 0], list[Case | None](), ladder.domain.padding != "none"
    for padding, new in zip(GRAPHS, _new_tokens(chunks), strict=True):
        steps.append(valid(partial(_step, step, cached, new, padding if pads else (0, 0))))
        taken = [TAKEN[b % len(TAKEN)] if n == DRAFTED else max(n, 0) for b, n in enumerate(new)]
        cached = [have + more for have, more in zip(cached, taken, strict=True)]
    return traced(steps)


def _in_own_pages(step: Case) -> list[Request]:
    """Return the requests of a step in pages that no two of them share."""
    first = min((i for r in step.batch.requests for i in r.block_ids if i >= 0), default=0)
    free = (first + (k ^ 1) for k in count_from())
    return [having_blocks(r, tuple(next(free) for _ in r.block_ids)) for r in step.batch.requests]


def _new_tokens(chunks: Sequence[int]) -> list[list[int]]:
    """Return the new tokens of each request in each step, `GONE` for one that is not there."""
    alone, together = [1] * DECODING, [1] * (DECODING + 1)
    drafts, paused, ended = [DRAFTED] * (DECODING + 1), list(together), list(together)
    paused[PAUSED], ended[LEAVING] = 0, GONE
    before = [[*alone, GONE]] * 2
    arriving = [[*alone, length] for length in chunks]
    return [*before, *arriving, together, together, drafts, together, drafts, paused, together, ended]


def _step(step: Case, cached: Sequence[int], new: Sequence[int], padding: tuple[int, int]) -> Case:
    """Return the step of the requests that are there, with so many padded requests, or tokens alone."""
    there = [b for b, query_len in enumerate(new) if query_len != GONE]
    requests = [
        replace(
            step.batch.requests[b],
            context_len=cached[b],
            query_len=new[b],
            phase="prefill" if new[b] > DRAFTED else "decode",
        )
        for b in there
    ]
    rows = step.layout.row_index
    made = edited(step, requests, None if rows is None else tuple(rows[b] for b in there))
    padded, tokens = padding
    if padded:
        tokens = (len(there) + padded) * max(new) - made.batch.num_tokens
    return made.laid_out(num_padding_requests=padded, num_padding_tokens=tokens)
