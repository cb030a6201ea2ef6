"""Steps that fill a budget of tokens, and crowds that are all deep: those of production and of benchmarks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_from
from itertools import islice

from cumae.oracle import Case
from cumae.properties.cases.draws import edited
from cumae.properties.steps.busy_steps import all_far, in_large_pages
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.engine_steps import SELECTIONS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.ordinary import beyond_windows
from cumae.properties.steps.served import drafted_decodes

REST = 31
"""Tokens of a chunk for each decode beside it: of a budget of 8,192, 256 decodes leave 7,936."""
DEEP = 2_050
"""Cached tokens behind which all requests of a crowd lie."""
PAGE = 64
"""Tokens of a page, which whole chunks fill."""
FREE = 2**16 + 64
"""Free pages of a fresh server, more than 16 bits count."""
TREE = 64
"""Tokens of a tree of drafts."""


def decodes_and_the_rest(each: int, cached: int, is_first: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens, and a chunk of the rest of a budget.

    ``cached``: tokens of its prompt that were computed before. ``is_first``: it stands before the decodes.
    """
    lens = drafted_decodes(count, 65, spread=900, tokens=each)
    lens.insert(0 if is_first else count, ("prefill", cached, REST * count))
    drafting = ladder.having("max_drafts", each - 1) or ladder
    return in_large_pages(drafting.unlimited, lens, count)


def all_deep(world: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each behind 2,048 tokens or more, on so many ranks."""
    ranks = ladder.unlimited if world == 1 else ladder.having("world", world)
    lens = uneven_decodes(count, DEEP, spread=900)
    return None if ranks is None else in_large_pages(ranks, lens, count)


def drafts_beyond_selections(world: int, padding: tuple[int, int], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of two tokens, all of which see more keys than are selected."""
    ranks = ladder if world == 1 else ladder.having("world", world)
    lens = uneven_decodes(count, DEEP, spread=90, tokens=2)
    return None if ranks is None else in_large_pages(ranks.preferring(**SELECTIONS), lens, count, padding)


def equal_prompts(query_len: int, cached: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts of one length, as benchmarks send them, in chunks of a page."""
    cut = ladder.having("chunk_size", PAGE) or ladder
    return in_large_pages(cut, [("prefill", cached, query_len)] * count, count)


def chunks_that_go_on(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks of one length, each with as many cached tokens as the one before has.

    Engines that cut prompts into chunks of one size have such steps.
    """
    return in_large_pages(ladder.unlimited, [("prefill", 512 * b, 512) for b in range(count)], count)


def equal_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks of 512 tokens, each behind a prefix of another length."""
    lens: list[Lens] = [("prefill", 70 + 131 * b, 512) for b in range(count)]
    return in_large_pages(ladder.unlimited, lens, count)


def many_trees(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which verifies a tree behind 1,024 tokens or more."""
    drafting = ladder.having("max_drafts", TREE - 1) or ladder
    lens = uneven_decodes(count, 1_030, spread=300, tokens=TREE)
    return in_large_pages(drafting, lens, count)


def deep_in_wide_rows(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind 2,048 tokens or more, in rows as wide as models have them."""
    rows = ladder.in_rows_of("bf16")
    lens = uneven_decodes(count, DEEP, spread=90)
    return None if rows is None else in_large_pages(rows, lens, count)


def whole_pages_padded(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks and prefixes of whole pages, and an odd number of padded tokens."""
    lens: list[Lens] = [("prefill", b % 3 * PAGE, (1 + b % 4) * PAGE) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(3, 0))


def in_rising_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` new prompts, whose pages a fresh server takes one after the other.

    Most of its pages are free.
    """
    plain = ladder.without("world", "window", "missing_blocks", "kernel_block_size")
    lens: list[Lens] = [("prefill", 0, plain.usual_block * 8 + 3 + 5 * b) for b in range(count)]
    case = plain.step(lens, seed=count, padding=(0, 0))
    ids = [] if case is None else [i for request in case.batch.requests for i in request.block_ids]
    if case is None or min(ids, default=-1) < 0 or len(set(ids)) < len(ids):
        return None
    rising = count_from(min(ids))
    renamed = [replace(r, block_ids=tuple(islice(rising, len(r.block_ids)))) for r in case.batch.requests]
    rows = None if case.layout.row_index is None else tuple(range(len(renamed)))
    return with_free_pages(ladder, edited(case, renamed, rows))


def beside_free_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks of some pages each, beside a long list of free ones."""
    plain = ladder.without("world", "window", "missing_blocks", "kernel_block_size")
    lens: list[Lens] = [("prefill", 20 + 7 * b, plain.usual_block + 3 + b) for b in range(count)]
    case = plain.step(lens, seed=count, padding=(0, 0))
    return None if case is None else with_free_pages(ladder, case)


def with_free_pages(ladder: Ladder, case: Case) -> Case:
    """Return the case beside more free pages than 16 bits count, unless they would be a cache."""
    largest = max((max(request.block_ids, default=0) for request in case.batch.requests), default=0)
    free = min(FREE, ladder.domain.max_block_id - largest)
    is_cache = not ladder.named.isdisjoint({"row_format", "head_format"})
    return case if is_cache or free <= 0 else case.laid_out(num_spare_blocks=free)


def in_small_kernel_blocks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes on two ranks, in large blocks of kernel blocks of one token."""
    lens = uneven_decodes(count, 900, spread=900)
    small = ladder.under(world=2, kernel_block_size=1)
    return None if small is None else in_large_pages(small, lens, count)


FULL: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "rising pages": (in_rising_pages, (27, 9)),
    "small kernel blocks on ranks": (in_small_kernel_blocks, (9, 3)),
    "whole pages, padded": (whole_pages_padded, (9, 4)),
    "full graphs of 256, in windows": (partial(beyond_windows, 128, 130), (256,)),
    "prompts of 1,024 tokens": (partial(equal_prompts, 1_024, 0), (8, 5)),
    "prompts of 512 tokens behind a prefix": (partial(equal_prompts, 512, 1_024), (16, 5)),
    "chunks that go on": (chunks_that_go_on, (9, 5)),
    "equal chunks": (equal_chunks, (9,)),
    "trees of drafts": (many_trees, (17,)),
    "a long list of free pages": (beside_free_pages, (9,)),
    "decodes and the rest of a budget": (partial(decodes_and_the_rest, 1, 0, False), (256, 134)),
    "drafts and the rest of a budget": (partial(decodes_and_the_rest, 4, 0, False), (134,)),
    "a chunk before hundreds of decodes": (partial(decodes_and_the_rest, 1, 2_048, True), (256, 134)),
    "drafts beyond selections": (partial(drafts_beyond_selections, 1, (0, 0)), (131, 67)),
    "drafts beyond selections, padded": (partial(drafts_beyond_selections, 1, (18, 9)), (35,)),
    "drafts beyond selections, on ranks": (partial(drafts_beyond_selections, 2, (0, 0)), (19,)),
    "hundreds of deep decodes": (partial(all_deep, 1), (259, 131)),
    "hundreds of deep decodes on ranks": (partial(all_deep, 8), (259, 131)),
    "deep in wide rows": (deep_in_wide_rows, (9, 8)),
    "many far": (all_far, (67, 33)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
