"""Cases in which an option that is a length or a count has a chosen value."""

from collections.abc import Iterator, Sequence

from cumae.oracle import Case
from cumae.properties.steps.crowds import Lens, drafting
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.widths import blocks, heads

LENGTHS = (
    "topk",
    "window",
    "min_window_columns",
    "ring_capacity",
    "num_workers",
    "split_size",
    "chunk_blocks",
    "chunk_size",
    "world",
    "row",
    "num_heads",
    "compress_ratio",
)
"""The options that are lengths or counts; ``row`` is the width of a latent row."""
MOST_HEADS = 2**8
MOST_DIM, MOST_EXPERTS, MOST_CHOSEN = 2**10, 2**11, 22
MOST_NEAR = 2**17
"""Contexts lie on both sides of an option up to this length."""
NEAR_WIDE_ROWS = 67
"""The same where rows are wide: their width is no length of requests, and many of them take long."""


def valued(ladder: Ladder, size: int, names: Sequence[str] = LENGTHS) -> Iterator[Case]:
    """Yield cases in which one of the options is ``size``: each that is a length or a count.

    Splits come with a selection of several of them.
    """
    for name in names:
        if name == "num_heads" and size > MOST_HEADS:
            continue
        if (chosen := ladder.having(name, size)) is not None:
            if name == "split_size":
                chosen = chosen.having("topk", 2 * size + 3) or chosen
            times = ladder.usual_block if name == "chunk_blocks" else 1
            near = min(size * times, MOST_NEAR if name != "row" else NEAR_WIDE_ROWS)
            lens: list[Lens] = [("decode", near + 3, 1), ("prefill", max(near - 2, 1), 5)]
            lens += [("prefill", 0, 3), ("decode", 2 * near + 1, 1)]
            if name == "num_heads":  # a program for each token and head is usual, and many are too much
                lens = [("decode", 2, 1), ("prefill", 0, 1)]
            case = chosen.step(lens, seed=size, block_size=ladder.usual_block)
            if case is not None:
                yield case


def shaped(ladder: Ladder, size: int) -> Iterator[Case]:
    """Yield cases of blocks of ``size`` tokens, of heads of as many numbers, and of as many experts.

    They have few tokens: each may be wide.
    """
    router = ladder.routing((size, 1, 1, min(size, MOST_CHOSEN))) if size <= MOST_EXPERTS else None
    wide = heads(ladder.without("num_heads"), size) if size <= MOST_DIM else None
    for case in (blocks(ladder, size), wide, None if router is None else router.tokens(37, 0)):
        if case is not None:
            yield case


def drafted(ladder: Ladder, drafts: int, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify about so many drafts each."""
    if (verifying := ladder.having("max_drafts", drafts)) is None:
        return None
    lens = list(drafting(count, drafts + 1))
    return verifying.step(lens, seed=count, block_size=ladder.usual_block)


def selected(ladder: Ladder, topk: int, count: int) -> Case | None:
    """Return a case of ``count`` tokens, most of which select ``topk`` keys; the keys' sum is odd."""
    if (selecting := ladder.having("topk", topk)) is None:
        return None
    lens: list[Lens] = [("prefill", 5, count // 2), ("prefill", 3, 0), ("prefill", topk, count // 2)]
    return selecting.step(lens, seed=count, block_size=ladder.usual_block)


def listed(ladder: Ladder, name: str, columns: int, count: int) -> Case | None:
    """Return a case of ``count`` tokens, most of which list so many keys of a window or of a selection."""
    if (listing := ladder.having(name, columns)) is None:
        return None
    lens: list[Lens] = [("prefill", 5, count // 2), ("prefill", 3, 0), ("prefill", columns, count // 2 + 1)]
    return listing.step(lens, seed=count, block_size=ladder.usual_block)


def cut(ladder: Ladder, chunk_size: int, context_len: int, query_len: int) -> Case | None:
    """Return a prefill in chunks of this size, which end at multiples of the position, if any do."""
    if (chunked := ladder.having("chunk_size", chunk_size)) is None:
        return None
    chunked = chunked.having("absolute_chunks", True) or chunked
    lens: list[Lens] = [("prefill", 2, 5), ("prefill", context_len, query_len), ("decode", 4, 1)]
    return chunked.step(lens, seed=chunk_size, block_size=ladder.usual_block)
