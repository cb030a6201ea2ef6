"""Steps whose requests share pages, or have given some back: branches of a prompt, samples of several."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count as count_from
from itertools import islice

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import sharing

SAMPLES, SHARED = 4, 3
"""Samples of each prompt, and the whole pages of the shortest one."""
BURST = 9
"""Requests that share nothing, and as many behind them that share a prompt."""
FREED, WINDOW = 6, 64
"""Pages that requests have given back, and keys of a window behind them."""
PAGE = 64
"""Tokens of a page of which a cache of prefixes knows whole ones alone."""


def tree_of_prompts(ways: Sequence[int], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each behind a page of every level of a tree.

    ``ways``: the pages of each level, which its requests have in turns.
    """
    plain = ladder.without("world", "window", "missing_blocks")
    size = plain.usual_block
    lens = uneven_decodes(count, (len(ways) + 1) * size + 1, spread=size)
    case = plain.step(lens, seed=count, padding=(0, 0))
    if case is None or min((len(r.block_ids) for r in case.batch.requests), default=0) <= len(ways):
        return None
    free = count_from(min(i for request in case.batch.requests for i in request.block_ids))
    levels = [list(islice(free, pages)) for pages in ways]
    requests = [
        having_blocks(
            request,
            (*(level[b % len(level)] for level in levels), *islice(free, len(request.block_ids) - len(ways))),
        )
        for b, request in enumerate(case.batch.requests)
    ]
    return edited(case, requests, case.layout.row_index)


def samples_of_prompts(offset: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, four behind each prompt, which share its whole pages.

    ``offset``: tokens that each prompt has behind them; with 0 all begin a page.
    """
    plain = ladder.without("world", "window", "missing_blocks")
    size = plain.usual_block
    lens: list[Lens] = [
        ("decode", (SHARED + b // SAMPLES) * size + min(offset, size - 1), 1) for b in range(count)
    ]
    case = plain.step(lens, seed=count, padding=(0, 0))
    if case is None:
        return None
    return sharing(case, lambda b: SHARED + b // SAMPLES, lambda b: b // SAMPLES)


def some_share(pages: int, depth_of: Callable[[int], int], ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind so many pages or more, some of which are those of one prompt.

    ``depth_of``: how many pages of the prompt a request has.
    """
    plain = ladder.without("world", "window", "missing_blocks")
    size = plain.usual_block
    lens = uneven_decodes(count, pages * size + 1, spread=size)
    case = plain.step(lens, seed=count, padding=(0, 0))
    return None if case is None else sharing(case, depth_of)


def missing_behind_shared(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that share their first page and lack the third one."""
    plain = ladder.without("world", "window")
    plain = plain.having("topk", 64) or plain
    size = plain.usual_block
    lens = uneven_decodes(count, 4 * size + 1, spread=size)
    case = plain.step(lens, seed=count, padding=(0, 0)) if ladder.misses_blocks else None
    if case is None or min((len(r.block_ids) for r in case.batch.requests), default=0) < 5:
        return None
    free = count_from(max(0, min(i for request in case.batch.requests for i in request.block_ids)))
    root = next(free)
    requests = [
        having_blocks(request, (root, next(free), -1, *islice(free, len(request.block_ids) - 3)))
        for request in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def behind_freed_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and two chunks in windows, which gave back pages before them."""
    plain = ladder.without("world")
    plain = plain.having("window", WINDOW) or plain
    size = plain.usual_block
    lens = uneven_decodes(count, (FREED + 1) * size + WINDOW, spread=90)
    lens += [("prefill", context_len + 1, 300) for _, context_len, _ in lens[:2]]
    case = plain.step(lens, seed=count, padding=(0, 0)) if ladder.misses_blocks else None
    if case is None or min((len(r.block_ids) for r in case.batch.requests), default=0) <= FREED:
        return None
    freed = (-1,) * FREED
    requests = [
        having_blocks(request, (*freed, *request.block_ids[FREED:])) for request in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def behind_whole_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts, each behind some whole pages of 64 tokens."""
    if PAGE not in ladder.sizes:
        return None
    lens: list[Lens] = [("prefill", (1 + b % 3) * PAGE, 257 + mixed(b) % 90) for b in range(count)]
    return ladder.without("world").step(lens, seed=count, padding=(0, 0), block_size=PAGE)


BRANCHES: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "a tree of prompts": (partial(tree_of_prompts, (1, 2)), (19, 9)),
    "a tree of three levels": (partial(tree_of_prompts, (1, 2, 8)), (19,)),
    "samples that begin a page": (partial(samples_of_prompts, 0), (17, 9)),
    "samples within a page": (partial(samples_of_prompts, 5), (17, 9)),
    "a burst that shares": (partial(some_share, 6, lambda b: 5 if b >= BURST else 0), (2 * BURST,)),
    "all but the first share": (partial(some_share, 10, lambda b: 9 if b else 0), (10,)),
    "behind whole pages": (behind_whole_pages, (5,)),
    "behind freed pages": (behind_freed_pages, (9, 2)),
    "the first two share more": (partial(some_share, 3, lambda b: 3 if b < 2 else 1), (19, 5)),
    "a page missing behind a shared one": (missing_behind_shared, (19, 5)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
