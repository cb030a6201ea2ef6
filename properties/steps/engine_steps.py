"""Steps in blocks, on ranks, and with options as engines run them, each with many tokens or requests."""

from dataclasses import replace

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.promises import BLOCK_SIZES
from cumae.properties.steps.crowds import Lens, short, uneven_decodes
from cumae.properties.steps.ladder import Ladder

COLUMNS = 131
"""Pages of the longest request where the block size is chosen: more than a tile of columns."""
WINDOW = 128
WORLD, GROUP = 4, 8
"""Ranks, and tokens of a compressed key, whose runs are several groups each."""
SELECTIONS = {"topk": 2_048, "split_size": 256, "num_workers": 132}
"""DeepSeek-V3.2's selections, in work items for all multiprocessors of an H200."""


def in_blocks_of(block_size: int, ladder: Ladder, size: int) -> Case | None:
    """Return a case of blocks of one size, with two long prefills and a context of many blocks.

    Kernel blocks are as large.
    """
    if block_size not in ladder.sizes or block_size == ladder.usual_block:
        return None
    if (whole := ladder.having("kernel_block_size", block_size)) is not None:
        ladder = whole
    return _in_blocks_of(block_size, ladder, size)


def in_any_blocks_of(block_size: int, ladder: Ladder, size: int) -> Case | None:
    """Return such a case of a block size that is not drawn, if the domain promises any."""
    if ladder.domain.block_sizes != BLOCK_SIZES:
        return None
    domain = ladder.domain.having(block_sizes=(block_size,))
    return _in_blocks_of(block_size, ladder.of(domain, ladder.named - {"kernel_block_size"}), size)


def _in_blocks_of(block_size: int, ladder: Ladder, size: int) -> Case | None:
    lens: list[Lens] = [("prefill", 2, size), ("decode", COLUMNS * block_size + 5, 1), ("prefill", 0, 0)]
    lens += [("prefill", 7 * block_size, 2 * block_size + size // 4), ("decode", 4, 1)]
    return ladder.unlimited.step(lens, seed=size + block_size, block_size=block_size)


def in_runs_of(block_size: int, ladder: Ladder, size: int) -> Case | None:
    """Return a case of ranks that take a block of positions at a time, of several groups if keys have any.

    Requests have several rounds of all ranks.
    """
    ranks = ladder.having("world", WORLD) if block_size in ladder.sizes else None
    if ranks is None or (runs := ranks.having("interleave", block_size)) is None:
        return None
    rounds = block_size * WORLD
    lens: list[Lens] = [("decode", 3 * rounds + block_size // 2, 1), ("prefill", 5, size), ("prefill", 9, 0)]
    lens += [("prefill", 2 * rounds - 3, rounds + 7), ("decode", 4 * rounds - 1, 1)]
    return (runs.having("compress_ratio", GROUP) or runs).step(lens, seed=block_size, block_size=block_size)


def deep_in_blocks_of(block_size: int, ladder: Ladder, size: int) -> Case | None:
    """Return a case of blocks of one size, with a decode that fills one behind about ``size`` tokens."""
    if block_size not in ladder.sizes:
        return None
    filled = size // block_size * block_size - 1
    lens: list[Lens] = [("prefill", 2, 3), ("decode", filled, 1), ("decode", size // 3, 1)]
    return ladder.without("window", "kernel_block_size").step(lens, seed=size, block_size=block_size)


def in_windows(ladder: Ladder, size: int) -> Case | None:
    """Return a case of ``size`` tokens of two prefills that are longer than a window, among decodes."""
    if (limited := ladder.having("window", WINDOW)) is None:
        return None
    lens = uneven_decodes(size // 8, 20, spread=400)
    lens += [("prefill", 5, size // 2), ("prefill", 300, size // 2 - size // 8)]
    return limited.step(lens, seed=size)


def in_chunks(absolute: bool, ladder: Ladder, chunk_size: int) -> Case | None:
    """Return a case of prefills of whole chunks, and of one row more or less, at all parts of a chunk.

    An idle one is among them, and one behind. ``absolute``: chunks end at multiples of the position; fresh
    prefills come as well.
    """
    if (chunked := ladder.having("chunk_size", chunk_size)) is None:
        return None
    cut = chunked.having("absolute_chunks", absolute)
    if cut is None and absolute:
        return None
    contexts = (0, 1, chunk_size, chunk_size - 1)
    lens: list[Lens] = [
        ("prefill", contexts[(i + k) % len(contexts)], k * chunk_size + d)
        for k in (1, 2)
        for i, d in enumerate((0, 1, -1))
    ]
    if absolute:
        lens += [("prefill", 0, query_len) for _, _, query_len in lens]
    lens.insert(3, ("prefill", chunk_size // 2, 0))
    return (cut or chunked).step([*lens, ("prefill", 2, 0)], seed=chunk_size)


def in_order(order: str, ladder: Ladder, size: int) -> Case | None:
    """Return a case of many tokens of many requests in pages of one order."""
    if (ordered := ladder.having("page_order", order)) is None:
        return None
    return ordered.step([*short(33), ("prefill", size // 4, size)], seed=size)


def selecting(topk: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that select up to ``topk`` keys each, without padding."""
    if (chosen := ladder.having("topk", topk)) is None:
        return None
    lens = uneven_decodes(count, topk - 9, spread=40)
    return chosen.step(lens, seed=count, padding=(0, 0))


def routed(
    shape: tuple[int, int, int, int],
    ladder: Ladder,
    count: int,
    logits: str = "negative",
    dtype: str | None = None,
) -> Case | None:
    """Return a case of ``count`` tokens and a router of this shape, with logits of one kind.

    ``dtype``: that of logits and biases; None for any.
    """
    router = ladder.routing(shape, logits, dtype)
    return None if router is None else router.tokens(count, 0)


def for_all_workers(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, an item each: as many as 132 workers take at a time, or twice."""
    lens = uneven_decodes(count, 20, spread=200)
    workers = ladder.under(**SELECTIONS)
    return None if workers is None else workers.step(lens, seed=count, padding=(0, 0))


def in_rows_of(row_format: str, in_powers: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of more than ``count`` new rows of one format, with scales in powers of two or not."""
    if (rows := ladder.in_rows_of(row_format)) is None:
        return None
    scaled = rows.having("power_of_two_scales", in_powers)
    if scaled is None and in_powers:
        return None
    rows = scaled or rows
    lens = uneven_decodes(13, 3, spread=40)
    return rows.step([*lens, ("prefill", 20, count), ("prefill", 0, 9)], seed=count)


def far_in_rows(ladder: Ladder, cached: int) -> Case | None:
    """Return a case of a decode alone behind so many tokens, in rows of fp8."""
    rows = ladder.in_rows_of("fp8")
    return None if rows is None else rows.unlimited.step([("decode", cached, 1)], seed=cached, padding=(0, 0))


def in_equal_shares(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests with context, each of which has four blocks of the workspace.

    In fp32, a product with the reciprocal of 41 or 47 gives a share that is one too small.
    """
    shared = ladder.having("chunk_blocks", 4)
    if shared is None:
        return None
    lens: list[Lens] = [("prefill", 70 + mixed(b) % 90, 3) for b in range(count)]
    case = shared.step(lens, seed=count)
    return None if case is None else replace(case, options=case.options.having(workspace_slack=0))
