"""Steps of ordinary size: hundreds of requests with context, long chunks behind long contexts, whole budgets.

A busy engine runs them all day. Crowds of tiny requests, and few long ones, show other limits of a function.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.drafted_steps import (
    drafts_around_a_prompt,
    drafts_around_the_first,
    drafts_behind,
    drafts_behind_a_prompt,
    dropped_drafts,
    dropped_on_one_side,
    idle_behind,
    some_drafts,
)
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.moved_blocks import with_exchanged

DEEP = 16_384
"""Cached tokens behind which a request counts as long."""
CHUNK = 64
"""Tokens of a chunk that requests fill."""
SMALL_PAGE, LARGE_PAGE = 16, 256
"""The pages of many long contexts: in smaller ones they have too many ids, and larger ones are rare."""


def decodes_behind(least: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each with ``least`` cached tokens or up to half as many more."""
    lens = uneven_decodes(count, least, spread=least // 2)
    return ladder.step(lens, seed=count + least, padding=(0, 0))


def with_a_chunk(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes with context, and a chunk behind them."""
    lens = uneven_decodes(count, 65, spread=300)
    return ladder.step([*lens, ("prefill", 512, 600)], seed=count, padding=(0, 0))


def with_prompts(ladder: Ladder, size: int) -> Case | None:
    """Return a case of 19 decodes, and three prompts of ``size`` tokens or a few more."""
    cut = ladder.having("chunk_size", CHUNK) or ladder
    lens = uneven_decodes(19, 65, spread=900)
    return cut.step([*lens, *(("prefill", 0, size + 9 * b) for b in range(3))], seed=size)


def with_one_prompt_at(place: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests: a prompt at one place, the others decodes; no padding."""
    lens = uneven_decodes(count, 3, spread=90)
    lens[place] = ("prefill", 0, 150)
    return ladder.step(lens, seed=count, padding=(0, 0))


def in_turns(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` pairs of a decode and a chunk of 16 tokens or more, without padding."""
    lens: list[Lens] = [
        one for b in range(count) for one in (("decode", 9 + b, 1), ("prefill", 20, 16 + mixed(b) % 20))
    ]
    return ladder.step(lens, seed=count, padding=(0, 0))


def with_idle_ones(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests with context: every fifth is idle, the others decode."""
    lens: list[Lens] = [("decode", 65 + mixed(b) % 90, int(b % 5 != 3)) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(0, 0))


def crossing(option: str, ladder: Ladder, size: int) -> Case | None:
    """Return a case of decodes that see fewer keys than ``size``, a chunk that crosses it, and a full hit."""
    if (limited := ladder.having(option, size)) is None:
        return None
    lens = uneven_decodes(9, 65, spread=90)
    lens += [("prefill", size - 100, 200), ("prefill", 2 * size + 70, 1)]
    return limited.step(lens, seed=size, padding=(0, 0))


def ending_alike(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests that have the same length after the step, not before it."""
    lens: list[Lens] = [("prefill", 128 - n, n) for n in (1 + mixed(b) % 60 for b in range(count))]
    return ladder.step(lens, seed=count, padding=(0, 0))


def crowd_of_prompts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts of 17 to 40 tokens, in chunks of 16 if there are any."""
    cut = ladder.having("chunk_size", 16) or ladder
    return cut.step([("prefill", 0, 17 + mixed(b) % 24) for b in range(count)], seed=count, padding=(0, 0))


def long_chunk(ladder: Ladder, size: int) -> Case | None:
    """Return a case of a chunk of ``size`` tokens behind a long context, between two decodes."""
    lens: list[Lens] = [("decode", 700, 1), ("prefill", DEEP + size // 3, size), ("decode", 9, 1)]
    return ladder.step(lens, seed=size)


def alone(ladder: Ladder, size: int) -> Case | None:
    """Return a case of a chunk of ``size`` tokens behind four times as many, without other requests.

    Its pages lie in a row, but for two of the new ones that change places. The first and the last of its
    slots are as far from each other as in a row without exception.
    """
    case = ladder.step([("prefill", 4 * size + 7, size)], seed=size, padding=(0, 0))
    if case is None or len(case.batch.requests) != 1:
        return case
    request = case.batch.requests[0]
    first = min((i for i in request.block_ids if i >= 0), default=0)
    in_order = having_blocks(request, range(first, first + len(request.block_ids)))
    last = case.batch.num_live_blocks(request) - 1
    changed = with_exchanged(in_order, last - 2, last - 1) if last > 2 else in_order
    return valid(partial(edited, case, [changed], case.layout.row_index)) or case


def long_chunk_of_groups(ladder: Ladder, size: int) -> Case | None:
    """Return the case of a long chunk in which four tokens have a key."""
    groups = ladder.having("compress_ratio", 4)
    return None if groups is None else long_chunk(groups, size)


def deep_decodes(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which has more than 8,192 cached tokens, in large pages."""
    size = max((size for size in ladder.sizes if size <= LARGE_PAGE), default=0)
    if size < SMALL_PAGE:
        return None
    lens = uneven_decodes(count, 8_200, spread=900)
    return ladder.step(lens, seed=count, padding=(0, 0), block_size=size)


def two_prompts(ladder: Ladder, size: int) -> Case | None:
    """Return a case of two prompts of ``size`` tokens or five more, in any chunks, and nine decodes."""
    cut = ladder.having("chunk_size", CHUNK) or ladder
    lens = uneven_decodes(9, 65, spread=90)
    return cut.step([("prefill", 0, size + 5), ("prefill", 0, size), *lens], seed=size)


def deep_chunks(ladder: Ladder, size: int) -> Case | None:
    """Return a case of decodes, and three chunks of ``size`` tokens behind as many or more cached ones."""
    lens = uneven_decodes(17, 65, spread=90)
    lens += [("prefill", context_len, size) for context_len in (2 * size, 3 * size, size)]
    return ladder.step(lens, seed=size)


def resumed(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, behind them a prompt as of a resumed request, and five decodes."""
    lens = uneven_decodes(count + 5, 65, spread=90)
    lens.insert(count, ("prefill", 0, 70 + count))
    return ladder.step(lens, seed=count, padding=(0, 0))


def all_long(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests of two tokens each, all of them behind long contexts."""
    verifying = ladder.having("max_drafts", 1) or ladder
    lens: list[Lens] = [("decode", DEEP + 5 + 611 * b, 2) for b in range(count)]
    return verifying.step(lens, seed=count, padding=(0, 0))


def full_budget(ladder: Ladder, size: int) -> Case | None:
    """Return a case of exactly ``size`` new tokens: decodes, and a chunk that takes what they leave."""
    lens = uneven_decodes(13, 40, spread=500)
    return ladder.step([*lens, ("prefill", 128, size - 13)], seed=size, padding=(0, 0))


def whole_units(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prefills that begin and end at pages, and are whole chunks of 64 rows."""
    cut = ladder.having("chunk_size", CHUNK) or ladder
    lens: list[Lens] = [("prefill", CHUNK * (b % 4), CHUNK * (2 + mixed(b) % 3)) for b in range(count)]
    return cut.step(lens, seed=count, padding=(0, 0))


def in_wide_tables(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests in tables as wide as a million tokens need."""
    lens = uneven_decodes(count, 1, spread=90)
    return ladder.step([*lens, ("prefill", 20, 9)], seed=count, room=(3, 8_300))


def beyond_windows(window: int, least: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind ``least`` cached tokens or more, with a shorter window."""
    windows = ladder.having("window", window)
    return None if windows is None else decodes_behind(least, windows, count)


def behind_wide_rows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests with context whose latent rows are as wide as released models'."""
    rows = ladder.in_rows_of("bf16")
    return None if rows is None else decodes_behind(65, rows, count)


ORDINARY: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "ordinary decodes": (partial(decodes_behind, 513), (515, 303)),
    "decodes of some pages": (partial(decodes_behind, 130), (515, 303, 83)),
    "hundreds of decodes": (partial(decodes_behind, 70), (200, 104, 24)),
    "decodes beyond windows": (partial(beyond_windows, 512, 1_100), (67, 35)),
    "pairs of tokens": (partial(drafts_behind, 2), (515, 303)),
    "ordinary decodes and a chunk": (with_a_chunk, (515, 203)),
    "decodes and long prompts": (with_prompts, (2_051, 1_201)),
    "a prompt that comes second": (partial(with_one_prompt_at, 1), (41, 9)),
    "a prompt that is last but one": (partial(with_one_prompt_at, -2), (41, 9)),
    "decodes and chunks in turns": (in_turns, (21, 5)),
    "decodes and idle ones": (with_idle_ones, (67, 37)),
    "drafts, then idle ones": (idle_behind, (112, 48)),
    "a prompt, then pairs of drafts": (partial(drafts_behind_a_prompt, 3), (131, 67)),
    "a prompt, then five drafts each": (partial(drafts_behind_a_prompt, 6), (67, 9)),
    "drafts around a prompt": (drafts_around_a_prompt, (19, 5)),
    "drafts around the first one's": (drafts_around_the_first, (67, 37)),
    "dropped drafts": (dropped_drafts, (19, 5)),
    "dropped drafts, then others": (partial(dropped_on_one_side, True), (19, 5)),
    "drafts, then dropped ones": (partial(dropped_on_one_side, False), (19, 5)),
    "some drafts and idle ones": (some_drafts, (37, 17)),
    "across a window": (partial(crossing, "window"), (512,)),
    "across a selection": (partial(crossing, "topk"), (512,)),
    "ending alike": (ending_alike, (19, 5)),
    "a crowd of prompts": (crowd_of_prompts, (259, 131)),
    "a long chunk": (long_chunk, (4_101, 2_053)),
    "a later chunk alone": (alone, (2_053, 613)),
    "a long chunk of groups": (long_chunk_of_groups, (2_053,)),
    "long contexts": (all_long, (9, 5)),
    "many long contexts": (deep_decodes, (131, 69)),
    "two prompts, then decodes": (two_prompts, (8_200, 2_053, 517)),
    "decodes, then deep chunks": (deep_chunks, (2_112, 576, 192)),
    "a resumed prompt among decodes": (resumed, (67, 19)),
    "a full budget": (full_budget, (8_192, 2_048)),
    "a full budget of half as many": (full_budget, (4_096, 1_024)),
    "whole pages and chunks": (whole_units, (19, 5)),
    "in wide tables": (in_wide_tables, (67, 9)),
    "behind wide rows": (behind_wide_rows, (67, 19)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
