"""Steps of decodes and chunks that are padded, idle, share a prompt or lack pages; few deep requests.

Engines run a mixed step in a graph that pads its tokens alone, and paused requests in one of decodes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.steps.busy_steps import in_large_pages
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes, sharing, with_drafts

TILE = 16
"""Tokens of which a graph of mixed steps has a multiple."""
WINDOW = 128
"""Keys of a window; pages in front of it are freed."""
DEEP, DRAFTED = 2_050, 4
"""Cached tokens of few requests, and new tokens of a decode that verifies drafts."""
LONG = 1_030
"""New tokens of a chunk, and its cached ones."""
UNDRAFTED = 87
"""New tokens of a chunk behind decodes; behind 130 cached ones it has no drafts."""
SMALL_PAGE = 16
IDLE_EVERY, ROWLESS = 5, 3
"""Of so many requests, one is idle; and the one that has no row of the table."""


def _decodes(count: int, each: int = 1) -> list[Lens]:
    return drafted_decodes(count, 65, spread=300, tokens=each)


def _and_a_chunk(count: int, each: int) -> list[Lens]:
    return [*_decodes(count, each), ("prefill", 130, UNDRAFTED)]


def _with_idle_ones(lens: Sequence[Lens], count: int) -> list[Lens]:
    """Return the requests, of which every fifth of the first ``count`` is idle."""
    return [
        (phase, cached, 0 if b < count and b % IDLE_EVERY == 2 else new)
        for b, (phase, cached, new) in enumerate(lens)
    ]


def _told(ladder: Ladder) -> Ladder:
    """Return the ladder of cases whose padded tokens belong to no request."""
    return ladder.preferring(token_padding=-1, dummy_request=False)


def _drafting(ladder: Ladder, each: int) -> Ladder:
    return (ladder.having("max_drafts", each - 1) or ladder) if each > 1 else ladder


def _num_tokens(lens: Sequence[Lens]) -> int:
    return sum(query_len for _, _, query_len in lens)


def with_padded_tokens(each: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens and a chunk, padded in tokens alone."""
    lens = _and_a_chunk(count, each)
    padded = -_num_tokens(lens) % TILE or TILE
    return _drafting(_told(ladder), each).step(lens, seed=count + each, padding=(padded, 0))


def decodes_padded(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and nothing else, padded by one token alone."""
    return _told(ladder).step(_decodes(count), seed=count, padding=(1, 0))


def with_idle_ones(each: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens, some of them idle, padded as in a graph."""
    lens = _with_idle_ones(_decodes(count, each), count)
    padded = -count % TILE or TILE
    rows = (count + padded) * each
    padding = rows - _num_tokens(lens), padded
    return _drafting(_told(ladder), each).step(lens, seed=count + each, padding=padding)


def all_idle(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that are all idle, padded as in a graph of more requests."""
    lens: list[Lens] = [(phase, cached, 0) for phase, cached, _ in _decodes(count)]
    padded = -count % TILE or TILE
    return _told(ladder).step(lens, seed=count, padding=(count + padded, padded))


def idle_before_a_chunk(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, some idle, and a chunk behind them, padded in tokens alone."""
    lens = _with_idle_ones(_and_a_chunk(count, 1), count)
    return _told(ladder).step(lens, seed=count, padding=(-_num_tokens(lens) % TILE or TILE, 0))


def behind_one_prompt(each: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens and a chunk, all of which share two pages."""
    plain = _drafting(ladder, each).without("world", "window", "missing_blocks")
    size = min((size for size in plain.sizes if size >= SMALL_PAGE), default=plain.usual_block)
    lens = drafted_decodes(count, 2 * size, spread=90, tokens=each)
    case = plain.step([*lens, ("prefill", 2 * size, 83)], seed=count, block_size=size, padding=(0, 0))
    return None if case is None else sharing(case, lambda b: 2)


def without_first_pages(
    each: int, options: Mapping[str, Any], padded: bool, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens without the pages in front of a window.

    ``padded``: they are padded as in a graph; else a chunk comes with them.
    """
    limited = ladder.under(**options) if options else ladder.unlimited
    if limited is None or not ladder.misses_blocks:
        return None
    lens, padding = (_decodes(count, each), (3 * each, 3)) if padded else (_and_a_chunk(count, each), (0, 0))
    chosen = _drafting(limited, each)
    size = chosen.nearest_block(SMALL_PAGE)
    case = chosen.step(lens, seed=count + each, block_size=size, padding=padding)
    if case is None:
        return None
    requests = []
    for request in case.batch.requests:
        freed = max(request.context_len + 1 - WINDOW, 0) // case.batch.tokens_per_block
        requests.append(having_blocks(request, (-1,) * freed + request.block_ids[freed:]))
    return edited(case, requests, case.layout.row_index)


def few_deep(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a few decodes that verify drafts behind 2,048 tokens or more."""
    lens: list[Lens] = [("decode", with_drafts(DEEP + 611 * b, DRAFTED), DRAFTED) for b in range(count)]
    return _drafting(ladder, DRAFTED).unlimited.step(lens, seed=count, padding=(0, 0))


def deep_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a few chunks of 1,024 tokens or more, each behind as many or more."""
    lens: list[Lens] = [("prefill", LONG + 131 * b, LONG + 9 * b) for b in range(count)]
    return in_large_pages(ladder.unlimited, lens, count)


def at_a_page(
    is_full: bool, each: int, padded: int, options: Mapping[str, Any], ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens that all fill their last page, or begin one.

    ``padded``: padded requests, of as many tokens each. Under a window, all are beyond it.
    """
    limited = ladder.under(**options)
    if limited is None:
        return None
    verifying = _drafting(limited, each)
    size = verifying.nearest_block(SMALL_PAGE)
    least = each // size + 2 + (WINDOW // size if options else 0)
    less = each if is_full else 0
    lens: list[Lens] = [("decode", size * (least + b % 5) - less, each) for b in range(count)]
    whole = verifying.preferring(kernel_block_size=size)
    return whole.step(lens, seed=count, block_size=size, padding=(padded * each, padded))


def under(options: Mapping[str, Any], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and a chunk, under these options."""
    chosen = ladder.under(**options)
    return None if chosen is None else chosen.step(_and_a_chunk(count, 1), seed=count, padding=(0, 0))


def with_holes(padded: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, some of which lack pages or a row.

    ``padded``: they are padded as in a graph; else a chunk comes with them.
    """
    lens, padding = (_decodes(count), (3, 3)) if padded else (_and_a_chunk(count, 1), (0, 0))
    case = ladder.unlimited.step(lens, seed=count, padding=padding, holes=True)
    if case is None or "row_index" not in ladder.named or not ladder.domain.rowless_requests:
        return case
    rows = case.layout.row_index or range(len(case.batch.requests))
    rowless = tuple(-1 if b == ROWLESS else row for b, row in enumerate(rows))
    return edited(case, list(case.batch.requests), rowless)


FEW = (19, 9)
MIXED: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "decodes and a chunk, padded in tokens": (partial(with_padded_tokens, 1), FEW),
    "decodes padded in tokens": (decodes_padded, (67, 35)),
    "drafts and a chunk, padded in tokens": (partial(with_padded_tokens, DRAFTED), FEW),
    "idle ones in a graph": (partial(with_idle_ones, 1), FEW),
    "idle ones in a graph of drafts": (partial(with_idle_ones, DRAFTED), FEW),
    "idle ones before a chunk, padded in tokens": (idle_before_a_chunk, FEW),
    "decodes and a chunk behind one prompt": (partial(behind_one_prompt, 1), FEW),
    "drafts and a chunk behind one prompt": (partial(behind_one_prompt, DRAFTED), FEW),
    "decodes and a chunk without first pages": (partial(without_first_pages, 1, {}, False), FEW),
    "decodes and a chunk in windows": (partial(without_first_pages, 1, {"window": WINDOW}, False), FEW),
    "drafts without first pages": (partial(without_first_pages, DRAFTED, {}, True), FEW),
    "drafts in windows": (partial(without_first_pages, DRAFTED, {"window": WINDOW}, True), FEW),
    "decodes and a chunk with holes": (partial(with_holes, False), FEW),
    "decodes with holes in a graph": (partial(with_holes, True), FEW),
    "few deep drafts": (few_deep, (3, 2)),
    "few deep chunks": (deep_chunks, (3,)),
    "full pages in a graph": (partial(at_a_page, True, 1, 1, {}), (39, 9)),
    "full pages of drafts": (partial(at_a_page, True, DRAFTED, 0, {}), FEW),
    "pages begun by drafts": (partial(at_a_page, False, DRAFTED, 3, {}), FEW),
    "full pages in windows": (partial(at_a_page, True, 1, 3, {"window": WINDOW}), FEW),
    "decodes and a chunk in a narrow table": (partial(under, {"page_slack": -3}), FEW),
    "decodes and a chunk in a small buffer": (partial(under, {"key_slack": -3}), FEW),
    "selections of a mixed step on ranks": (partial(under, {"world": 2, "topk": 64}), FEW),
    "windows of a mixed step on ranks": (
        partial(under, {"world": 4, "interleave": 4, "window": WINDOW}),
        FEW,
    ),
    "all idle in a graph": (all_idle, FEW),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
