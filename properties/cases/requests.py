"""The drawing rules for requests: kinds of work, lengths at edges, blocks, shared prefixes."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cumae.oracle import Layout, Phase, Request
from cumae.properties.cases.choices import Choices, draw_permutation, mixed
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.values import DRAFTS

TILES = (32, 64, 128, 256, 512, 1024)
LARGE_BLOCK = 128
"""Lengths reach several blocks of up to this many tokens, and one larger block."""
SOME_REQUESTS = (7, 9, 12, 17, 20, 24, 29)
REQUEST_COUNTS = (31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 2048)
MANY = 16
"""Requests from here on share no blocks and have none to spare."""
KINDS = ("first_chunk", "later_chunk", "decode", "idle", "one_token_chunk", "speculative", "empty")


class Work(NamedTuple):
    """The work of one request, before it has blocks."""

    phase: Phase
    context_len: int
    query_len: int


def draw_length(choices: Choices, low: int, high: int, tokens_per_block: int, *, large: bool) -> int:
    """Return a length in ``[low, high]``: mostly small, often at a block edge, rarely at a tile edge."""
    kind = choices.integer(0, 9)
    if kind <= 4:
        length = low + choices.integer(0, 5)
    elif kind <= 8 or not large:
        blocks = choices.integer(0, 3) if tokens_per_block <= LARGE_BLOCK else choices.integer(0, 1)
        length = blocks * tokens_per_block + choices.pick((0, 1, -1, tokens_per_block * 2 // 3))
    else:
        sizes = choices.sizes if choices.sizes and choices.chance(50) else TILES
        length = choices.pick(sizes) + choices.pick((0, -1, 1))
    return min(max(length, low), high)


class Limits(NamedTuple):
    """The limits that a domain promises for each request."""

    phases: tuple[Phase, ...]
    empty_requests: bool
    max_context_len: int
    max_query_len: int


def limits_of(domain: Domain) -> Limits:
    """Return what a domain promises of each request."""
    return Limits(domain.phases, domain.empty_requests, domain.max_context_len, domain.max_query_len)


def draw_work(choices: Choices, limits: Limits, tokens_per_block: int, *, large: bool) -> Work:
    """Return one request's work; the simplest is a first chunk of one token."""
    kind = choices.pick(KINDS)
    phase: Phase = "decode" if kind in ("decode", "speculative") else "prefill"
    if kind == "idle":
        phase = choices.pick(("prefill", "decode"))
    if phase not in limits.phases:
        phase = limits.phases[0]
    least_context = 1 if phase == "decode" else 0
    least_query = 0 if limits.empty_requests else 1

    def context(low: int) -> int:
        low = min(max(low, least_context), limits.max_context_len)
        if choices.contexts and choices.chance(30):
            length = choices.pick(choices.contexts) * choices.pick((1, 1, 2)) + choices.pick((0, -1, 1))
            return min(max(length, low), limits.max_context_len)
        return draw_length(choices, low, limits.max_context_len, tokens_per_block, large=large)

    def query(low: int) -> int:
        low = min(max(low, least_query), limits.max_query_len)
        if choices.queries and choices.chance(25):
            length = choices.pick(choices.queries) + choices.pick((0, -1, 1))
            return min(max(length, low), limits.max_query_len)
        return draw_length(choices, low, limits.max_query_len, tokens_per_block, large=large)

    def exactly(length: int) -> int:
        return min(max(length, least_query), limits.max_query_len)

    if kind == "first_chunk":
        return Work(phase, least_context, query(1))
    if kind == "later_chunk":
        return Work(phase, context(1), query(1))
    if kind in ("decode", "one_token_chunk"):
        return Work(phase, context(least_context), exactly(1))
    if kind == "speculative":
        return Work(phase, context(1), exactly(choices.pick(DRAFTS)))
    if kind == "idle":
        return Work(phase, context(1), exactly(0))
    return Work(phase, least_context, exactly(0))


def give_blocks(
    choices: Choices, domain: Domain, works: list[Work], tokens_per_block: int
) -> tuple[Request, ...]:
    """Return the requests with blocks: scattered ids, shared prefixes, spare blocks at the end of some."""
    shared = _draw_sharing(choices, works, tokens_per_block)
    counts = [
        -(-(context_len + query_len) // tokens_per_block) - num_shared
        for (_, context_len, query_len), (_, num_shared) in zip(works, shared, strict=True)
    ]
    room = domain.max_block_id + 1 - domain.reserved_blocks
    if len(works) < MANY:
        extended = [count + choices.pick((0, 0, 0, 1, 2)) for count in counts]
        counts = extended if sum(extended) <= room else counts
    total = sum(counts)
    pool = min(max(1, total + choices.pick((0, 1, 7, 100))), max(room, 1))
    step, first = draw_permutation(choices, pool)
    free = tuple((domain.reserved_blocks + (first + step * np.arange(total)) % pool).tolist())
    requests: list[Request] = []
    stop = 0
    for (phase, context_len, query_len), (owner, num_shared), count in zip(
        works, shared, counts, strict=True
    ):
        start, stop = stop, stop + count
        ids = free[start:stop]
        if num_shared:
            ids = requests[owner].block_ids[:num_shared] + ids
        requests.append(Request(context_len, query_len, ids, phase))
    return tuple(requests)


def withhold(choices: Choices, requests: tuple[Request, ...], tokens_per_block: int) -> tuple[Request, ...]:
    """Return the requests without their last blocks, without their first, or with a hole between them."""
    drop = choices.pick((_withhold_last, _withhold_last, _free_first, _withhold_one))
    return tuple(drop(choices, request, tokens_per_block) for request in requests)


def with_holes(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Return the requests without some blocks in the middle and at the end of every second row."""
    return tuple(_with_holes(one) if b % 2 else one for b, one in enumerate(requests))


def without_rows(layout: Layout, count: int) -> Layout:
    """Return the layout in which some of ``count`` requests have no row of the table."""
    rows = layout.row_index or range(count)
    return replace(
        layout, row_index=tuple(-1 if mixed(b, 5) % 16 == 0 else row for b, row in enumerate(rows))
    )


def _with_holes(request: Request) -> Request:
    """Return the request without about an eighth of its blocks."""
    ids = request.block_ids
    return replace(request, block_ids=tuple(-1 if mixed(j, 3) % 8 == 0 else i for j, i in enumerate(ids)))


def _draw_sharing(choices: Choices, works: list[Work], tokens_per_block: int) -> list[tuple[int, int]]:
    """Return for each request an earlier one and how many of its first blocks are shared with it.

    Full cached blocks are shared freely. A partly filled last block has at most one writer: it is shared
    once, if its first holder is idle and the second continues after it.
    """
    shared = [(0, 0)]
    partly: set[int] = set()
    for b, work in enumerate(works[1:MANY], start=1):
        if work.context_len == 0 or not choices.chance(50):
            shared.append((0, 0))
            continue
        owner = choices.integer(0, b - 1)
        first = works[owner]
        full = min(first.context_len, work.context_len) // tokens_per_block
        goes_on = first.query_len == 0 and first.context_len <= work.context_len
        if (
            goes_on
            and first.context_len % tokens_per_block
            and not {owner, b} & partly
            and choices.chance(80)
        ):
            partly |= {owner, b}
            shared.append((owner, full + 1))
        else:
            shared.append((owner, choices.integer(min(1, full), full)))
    return (shared + [(0, 0)] * len(works))[: len(works)]


def _free_first(choices: Choices, request: Request, tokens_per_block: int) -> Request:
    """Free the first blocks, as a sliding window does."""
    count = min(choices.integer(1, 2), len(request.block_ids))
    return replace(request, block_ids=(-1,) * count + request.block_ids[count:])


def _withhold_one(choices: Choices, request: Request, tokens_per_block: int) -> Request:
    """Withhold one block, where there are others before and behind it."""
    ids, live = request.block_ids, -(-request.seq_len // tokens_per_block)
    if live < 3:
        return request
    at = choices.integer(1, live - 2)
    return replace(request, block_ids=(*ids[:at], -1, *ids[at + 1 :]))


def _withhold_last(choices: Choices, request: Request, tokens_per_block: int) -> Request:
    """Withhold the last blocks that the request needs, and any after them."""
    ids = request.block_ids
    granted = max(0, -(-request.seq_len // tokens_per_block) - choices.integer(0, 2))
    return replace(request, block_ids=ids[:granted] + (-1,) * (len(ids) - granted))
