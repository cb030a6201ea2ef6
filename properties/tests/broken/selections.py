"""Oracles of selected slots and chunks that are wrong on purpose."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import (
    GARBAGE,
    ChunkedContext,
    CompactTopkSlots,
    KeyScope,
    TopkToSlots,
    chunked_context,
    compact_topk_slots,
    owns,
    topk_to_slots,
)


def every_token_of_request_zero(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> TopkToSlots:
    owners = [min(owner, 0) for owner in token_to_request]
    return topk_to_slots(owners, selected_positions, _without_garbage(block_table), block_size)


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


def no_token_in_the_workspace(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> TopkToSlots:
    return topk_to_slots(token_to_request, selected_positions, _without_garbage(block_table), block_size)


def every_workspace_from_row_zero(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    workspace_ids: Sequence[int] | None,
    workspace_starts: Sequence[int] | None,
) -> TopkToSlots:
    starts = None if workspace_starts is None else [0] * len(workspace_starts)
    given = (token_to_request, selected_positions, block_table, block_size)
    return topk_to_slots(*given, workspace_ids=workspace_ids, workspace_starts=starts)


def own_positions_of_a_workspace(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[Any]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: Sequence[int] | None,
    workspace_starts: Sequence[int] | None,
) -> TopkToSlots:
    owned = [
        [p if p is GARBAGE or p < 0 or owns(p, world, rank, interleave) else -1 for p in positions]
        for positions in selected_positions
    ]
    given = (token_to_request, owned, block_table, block_size, world, rank, interleave)
    return topk_to_slots(*given, workspace_ids, workspace_starts)


def gaps_left_where_they_are(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: Sequence[int] | None,
    workspace_starts: Sequence[int] | None,
) -> CompactTopkSlots:
    place = (block_table, block_size, world, rank, interleave, workspace_ids, workspace_starts)
    right = compact_topk_slots(token_to_request, selected_positions, *place)
    gaps = topk_to_slots(token_to_request, selected_positions, *place)
    return right._replace(compact_slots=gaps.selected_slots)


def selections_counted(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: Sequence[int] | None,
    workspace_starts: Sequence[int] | None,
) -> CompactTopkSlots:
    place = (block_table, block_size, world, rank, interleave, workspace_ids, workspace_starts)
    right = compact_topk_slots(token_to_request, selected_positions, *place)
    rows = zip(token_to_request, selected_positions, strict=True)
    counts = [sum(p >= 0 for p in positions) if owner >= 0 else 0 for owner, positions in rows]
    return right._replace(num_valid=counts)


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
