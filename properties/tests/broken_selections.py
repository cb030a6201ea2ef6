"""Oracles of selected slots and chunks that are wrong on purpose."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import GARBAGE, ChunkedContext, KeyScope, TopkToSlots, chunked_context, topk_to_slots


def every_token_of_request_zero(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> TopkToSlots:
    owners = [min(owner, 0) for owner in token_to_request]
    return topk_to_slots(owners, selected_positions, block_table, block_size)


def last_block_beyond_the_table(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> TopkToSlots:
    longer = [[*row, *row[-1:] * 2] for row in _without_garbage(block_table)]
    return topk_to_slots(token_to_request, selected_positions, longer, block_size)


def a_slot_for_every_rank(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> TopkToSlots:
    return topk_to_slots(token_to_request, selected_positions, _without_garbage(block_table), block_size)


def _without_garbage(block_table: Sequence[Sequence[Any]]) -> list[list[int]]:
    return [[0 if entry is GARBAGE else entry for entry in row] for row in block_table]


def chunks_of_parts_of_a_block(
    context_lens: Sequence[int],
    is_prefill: Sequence[bool],
    workspace_tokens: int,
    max_context_len: int,
    key_scope: KeyScope,
) -> ChunkedContext:
    return chunked_context(context_lens, is_prefill, workspace_tokens, 1, max_context_len, key_scope)


def empty_chunk_holds_the_one_before(
    context_lens: Sequence[int],
    is_prefill: Sequence[bool],
    workspace_tokens: int,
    block_size: int,
    max_context_len: int,
    key_scope: KeyScope,
) -> ChunkedContext:
    right = chunked_context(
        context_lens, is_prefill, workspace_tokens, block_size, max_context_len, key_scope
    )
    lens: list[int] = []
    for i, length in enumerate(right.chunk_lens):
        before = lens[i - len(context_lens)] if i >= len(context_lens) else 0
        lens.append(length or before)
    return right._replace(chunk_lens=lens)
