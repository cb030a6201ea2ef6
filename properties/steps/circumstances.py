"""Steps of each mixture under each circumstance: padded, far, equal, in other pages, on ranks, with options.

A fast path of an engine is taken for one mixture of requests, and is wrong under one circumstance. Here each
mixture comes under each.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, having_blocks, renamed
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.mixtures import LEAST, MIXTURES, SPREAD, Circumstance, step_of

DEEP, EQUAL, FAR = 4_100, 640, 40_003
"""Cached tokens of deep requests, those that all have, and those of one far request."""
LONG = 520
"""New tokens of a longer chunk."""
PAGE, WINDOW = 16, 128
"""The least tokens of a page, and the keys of a window; pages in front of it are freed."""
LARGEST_ID, POOL_ROW, ROW_STEP = 70_000, 1_000, 3
"""Added to all ids; the first row of a table for many requests, and the rows from one request to the next."""
FEW, MANY = (9,), (261, 133)
"""Requests of a step of the most keys, and more than a hundred."""
CACHES = frozenset({"row_format", "head_format"})
"""Features of operations that get a cache of as many pages as the largest id."""


def _deep(b: int, count: int) -> int:
    return DEEP + mixed(b) % SPREAD


def _equal(b: int, count: int) -> int:
    return EQUAL


def _one_far(b: int, count: int) -> int:
    return FAR if b == count - 2 else LEAST + mixed(b) % SPREAD


def _to_a_power_of_two(tokens: int, count: int) -> tuple[int, int]:
    """Return as many padded tokens as fill a power of two, more than 64, and no padded request."""
    return 2 ** (tokens + 64).bit_length() - tokens, 0


def _beside_requests(tokens: int, count: int) -> tuple[int, int]:
    return 0, 2 * PAGE + 1


def without_first_pages(ladder: Ladder, case: Case) -> Case | None:
    """Return the case without the pages in front of a window; None if no request may lack pages."""
    if not ladder.misses_blocks:
        return None
    requests, window = [], max(WINDOW, case.options.keys.window)
    for request in case.batch.requests:
        freed = max(request.context_len + 1 - window, 0) // case.batch.tokens_per_block
        requests.append(having_blocks(request, (-1,) * freed + request.block_ids[freed:]))
    return edited(case, requests, case.layout.row_index)


def in_large_ids(ladder: Ladder, case: Case) -> Case | None:
    """Return the case with ids that 16 bits do not count; None if a cache would hold as many pages."""
    if not CACHES.isdisjoint(ladder.named) or ladder.domain.max_block_id < 2 * LARGEST_ID:
        return None
    return renamed(case, LARGEST_ID)


def in_rows_of_a_pool(ladder: Ladder, case: Case) -> Case | None:
    """Return the case whose requests have rows in the middle of a table for many more; None without rows."""
    if "row_index" not in ladder.named:
        return None
    count = len(case.batch.requests)
    last = POOL_ROW + ROW_STEP * count
    rows = tuple(last - ROW_STEP * b for b in range(count))
    return edited(case.laid_out(num_spare_rows=last + 1 - count), list(case.batch.requests), rows)


def _to_a_window(b: int, count: int) -> int:
    """Return cached tokens on both sides of a window of 512 keys."""
    return 400 + mixed(b) % SPREAD


GENERAL: Mapping[str, Circumstance] = {
    "padded to a power of two": Circumstance(padding=_to_a_power_of_two),
    "beside padded requests": Circumstance(padding=_beside_requests),
    "with one far": Circumstance(cached=_one_far, pages=64),
    "of one context": Circumstance(cached=_equal),
    "deep in pages of 1": Circumstance(cached=_deep, pages=1, counts=FEW),
    **{f"in pages of {size}": Circumstance(pages=size) for size in (32, 128, 256)},
    "without first pages": Circumstance(change=without_first_pages),
    "on 4 ranks in turns": Circumstance(options={"world": 4}, prefers={"interleave": 1}),
    "on 8 ranks in runs": Circumstance(options={"world": 8}, prefers={"interleave": 64}, pages=64),
    "in large ids": Circumstance(change=in_large_ids),
    "in rows of a pool": Circumstance(change=in_rows_of_a_pool),
}
"""By name: what any mixture comes under."""
_CHUNKS = [(128, False), (512, False), (512, True)]
_ITEMS = {"split_size": 256, "num_workers": 132}
WITH_OPTIONS: Mapping[str, tuple[Circumstance, Sequence[str]]] = {
    "in large ids on ranks": (
        Circumstance(options={"world": 2}, prefers={"interleave": 1}, change=in_large_ids),
        ("decodes", "decodes among chunks"),
    ),
    "in large ids of kernel blocks": (
        Circumstance(options={"kernel_block_size": 16}, pages=64, change=in_large_ids),
        ("decodes", "decodes among chunks"),
    ),
    **{
        f"in a window of {window} in pages of 1": (
            Circumstance(cached, options={"window": window}, pages=1, counts=FEW),
            ("decodes", "drafts", "decodes, then a chunk"),
        )
        for window, cached in ((127, _equal), (129, _equal), (512, _to_a_window), (4_096, _deep))
    },
    **{
        f"in a window of {window} in pages of 256": (
            Circumstance(_deep, options={"window": window}, pages=256),
            ("drafts", "decodes among chunks"),
        )
        for window in (128, 1_024)
    },
    "in kernel blocks of 16": (
        Circumstance(options={"kernel_block_size": 16}, pages=128),
        ("pairs", "drafts", "any drafts", "chunks"),
    ),
    "beyond a window of 4,096": (
        Circumstance(_deep, options={"window": 4_096}, pages=64),
        ("decodes", "drafts", "decodes among chunks"),
    ),
    **{
        f"in chunks of {size}{' positions' if absolute else ''}": (
            Circumstance(long=LONG, options={"chunk_size": size, "absolute_chunks": absolute}),
            tuple(MIXTURES),
        )
        for size, absolute in _CHUNKS
    },
    "in chunks of 512 positions, deep": (
        Circumstance(_deep, long=LONG, options={"chunk_size": 512, "absolute_chunks": True}, counts=FEW),
        ("decodes", "chunks", "decodes among chunks"),
    ),
    **{
        f"in rings of {size}": (Circumstance(_deep, options={"ring_capacity": size}), tuple(MIXTURES))
        for size in (32, 512)
    },
    **{
        f"in groups of 128 on {world} ranks": (
            Circumstance(
                long=LONG,
                options={"compress_ratio": 128, "world": world, "interleave": 128},
                pages=128,
                counts=FEW,
            ),
            ("decodes among chunks", "chunks"),
        )
        for world in (4, 8)
    },
    "beyond selections": (
        Circumstance(_deep, options={"topk": 2_048}, prefers=_ITEMS, pages=64),
        ("decodes", "pairs"),
    ),
    "beyond selections in pages of 1": (
        Circumstance(_deep, options={"topk": 512}, pages=1, counts=FEW),
        ("decodes",),
    ),
    "with a long chunk that selects": (
        Circumstance(long=300, options={"topk": 64}),
        ("decodes, then a chunk",),
    ),
    **{
        f"for {workers} workers": (
            Circumstance(options={"topk": 512, "split_size": 64, "num_workers": workers}),
            ("decodes", "drafts"),
        )
        for workers in (108, 148, 160)
    },
    "in rows of fp8 on ranks": (
        Circumstance(options={"world": 2}, prefers={"interleave": 1}, rows="fp8"),
        ("decodes", "drafts", "decodes, then a chunk"),
    ),
    **{
        f"in {order} pages of {kind}": (
            Circumstance(
                options={"page_order": order, "head_format": kind, "num_heads": 2, "head_dims": (64, 64)}
            ),
            ("new and cached prompts",),
        )
        for order, kind in (
            ("NHD", "fp8"),
            ("NHD", "int8_own"),
            ("joined", "bf16"),
            ("joined", "fp8"),
            ("packed", "bf16"),
            ("packed", "fp8"),
            ("shuffled", "bf16"),
            ("shuffled", "fp8"),
        )
    },
}
"""By name: what needs options that only some operations have, and the mixtures that come under it."""
CROWDED = (
    ("decodes", "in pages of 32"),
    ("decodes", "in pages of 128"),
    ("decodes", "in pages of 256"),
    ("decodes", "on 4 ranks in turns"),
    ("decodes", "on 8 ranks in runs"),
    ("decodes", "without first pages"),
    ("chunks", "in pages of 32"),
    ("new and cached prompts", "in pages of 128"),
)
"""Mixtures of more than a hundred requests, and what they come under."""


def _in_turns() -> list[tuple[str, str]]:
    """Return all pairs of a mixture and a circumstance, such that the first of them have each once."""
    mixtures, names = [*MIXTURES], [*GENERAL]
    pairs = product(range(len(mixtures)), range(len(names)))
    ordered = sorted(pairs, key=lambda pair: ((pair[0] - pair[1]) % len(mixtures), pair[1]))
    return [(mixtures[i], names[j]) for i, j in ordered]


CIRCUMSTANCES: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    **{
        f"{kinds}, {name}": (partial(step_of, kinds, under), under.counts)
        for name, (under, mixtures) in WITH_OPTIONS.items()
        for kinds in mixtures
    },
    **{
        f"hundreds of {kinds}, {name}": (partial(step_of, kinds, GENERAL[name]), MANY)
        for kinds, name in CROWDED
    },
    **{
        f"{kinds}, {name}": (partial(step_of, kinds, GENERAL[name]), GENERAL[name].counts)
        for kinds, name in _in_turns()
    },
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
