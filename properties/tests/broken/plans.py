"""Oracles of context chunks that are wrong on purpose."""

from collections.abc import Sequence

from cumae.oracle import AnyChunks, any_chunks


def contexts_cut_within_a_block(
    context_lens: Sequence[int], workspace_tokens: int, world: int, interleave: int
) -> AnyChunks:
    return any_chunks(context_lens, workspace_tokens, 1, world, interleave)


def requests_counted_without_the_empty_ones(
    context_lens: Sequence[int], workspace_tokens: int, block_size: int, world: int, interleave: int
) -> AnyChunks:
    lens = [context_len for context_len in context_lens if context_len > 0]
    return any_chunks(lens, workspace_tokens, block_size, world, interleave)


def every_rank_holds_every_token(
    context_lens: Sequence[int], workspace_tokens: int, block_size: int
) -> AnyChunks:
    return any_chunks(context_lens, workspace_tokens, block_size)
