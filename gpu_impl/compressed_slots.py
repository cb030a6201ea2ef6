"""The cache slot of the compressed state that each token completes, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_int, check_shard, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.table_rows import check_table, find_rows

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_rows",
        "table_width",
        "table_row_stride",
        "num_tokens_padded",
        "num_slots",
    ]
)
def _write_compressed_slots(
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    slot_mapping: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    compressed_slots: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_tokens_padded: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    compress_ratio: tl.tensor,
    world: tl.tensor,
    interleave: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    IS_SHARDED: tl.constexpr,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    m_token = o_token < num_tokens_padded
    i_request = tl.load(token_to_request + o_token, mask=m_token, other=-1)
    m_slot = (i_request >= 0) & (i_request < num_requests)
    # Tokens that are replayed, and those of other ranks, have no slot of their own.
    m_slot = m_slot & (tl.load(slot_mapping + o_token, mask=m_token, other=-1) >= 0)
    i_row, m_slot = find_rows(row_index, i_request, m_slot, num_rows, HAS_ROW_INDEX)
    position = tl.load(position_ids + o_token, mask=m_slot, other=-1).to(tl.int64)
    m_slot = m_slot & (position >= 0) & ((position + 1) % compress_ratio == 0)
    position = tl.where(m_slot, position, 0)
    if IS_SHARDED:
        position = position // interleave // world * interleave + position % interleave
    i_state = position // compress_ratio
    i_column = i_state // block_size
    m_slot = m_slot & (i_column < table_width)
    entry = i_row * table_row_stride + i_column * table_column_stride
    block_id = tl.load(block_table + entry, mask=m_slot, other=-1).to(tl.int64)
    slot = tl.where(block_id >= 0, block_id * block_size + i_state % block_size, -1)
    tl.store(compressed_slots + o_token, slot, mask=o_token < num_slots)


def write_compressed_slots(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    slot_mapping: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    block_size: int,
    compress_ratio: int,
    world: int,
    rank: int,
    interleave: int,
    compressed_slots: torch.Tensor,
) -> None:
    """Write the slot of each compressed state that is complete into compressed_slots int64 [S], -1 is none.

    token_to_request [T] (-1 means none: a map padded with 0 has no place here), position_ids [T],
    slot_mapping [at least T], the slots of the tokens themselves on this rank (negative means none),
    block_table [num_rows, width] of any strides (-1 means none), row_index [R] (the table row of each
    request, -1 means none) or None (request b has row b); each int32 or int64. The table is of states: a
    block holds block_size states of compress_ratio tokens.
    The token at position p completes a state if compress_ratio divides p + 1. It has a slot only if the token
    itself has one. With l = p // (world * interleave) * interleave + p % interleave, the local position on
    the rank that owns p (p itself if world is 1), and state c = l // compress_ratio, the slot is
    table[row][c // block_size] * block_size + c % block_size, in int64. `rank` only has to exist: the
    positions of other ranks are those without a slot in slot_mapping.
    -1 holds for every other token, in padding rows, those with a negative request or position, for a row
    outside the table, for a column past its width (which is not read), for a negative entry, and in the rows
    T .. S-1, with S >= T. compressed_slots is contiguous; all S rows are written.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and where, with world > 1,
    compress_ratio does not divide interleave, before anything is written.
    Rule: vLLM get_compressed_slot_mapping.

    >>> token_to_request, positions = torch.tensor([0, 0, 2, 2, 2, -1]), torch.tensor([3, 4, 5, 6, 7, 1])
    >>> slot_mapping, table = torch.tensor([9, 8, -1, 5, 4, 3]), torch.tensor([[7, 5], [9, -1], [2, 6]])
    >>> slots = torch.empty(7, dtype=torch.int64)
    >>> write_compressed_slots(token_to_request, positions, slot_mapping, table, None, 3, 2, 1, 0, 1, slots)
    >>> slots.tolist()
    [22, -1, -1, -1, 18, -1, -1]
    """
    check_indices("token_to_request", token_to_request, None)
    device, num_tokens_padded = token_to_request.device, token_to_request.numel()
    check_indices("position_ids", position_ids, num_tokens_padded, device)
    check_tensor("slot_mapping", slot_mapping, INDEX_DTYPES, (None,), device)
    _check_length("slot_mapping", slot_mapping, num_tokens_padded)
    check_table(block_table, row_index, None, device)
    check_int("block_size", block_size, 1)
    check_int("compress_ratio", compress_ratio, 1)
    check_shard(world, rank, interleave)
    if world > 1 and interleave % compress_ratio:
        raise ValueError(f"compress_ratio = {compress_ratio}, must divide interleave = {interleave}")
    check_tensor("compressed_slots", compressed_slots, (torch.int64,), (None,), device)
    _check_length("compressed_slots", compressed_slots, num_tokens_padded)
    num_slots = compressed_slots.numel()
    if num_slots == 0:
        return
    num_rows, table_width = block_table.shape
    with torch.cuda.device(token_to_request.get_device()):
        _write_compressed_slots[(-(-num_slots // TOKENS_PER_TILE),)](
            token_to_request,
            position_ids,
            slot_mapping,
            block_table,
            block_table if row_index is None else row_index,
            compressed_slots,
            num_rows if row_index is None else row_index.numel(),
            num_rows,
            table_width,
            *block_table.stride(),
            num_tokens_padded,
            num_slots,
            block_size,
            compress_ratio,
            world,
            interleave,
            HAS_ROW_INDEX=row_index is not None,
            IS_SHARDED=world > 1,
            TILE=TOKENS_PER_TILE,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )


def _check_length(name: str, slots: torch.Tensor, num_tokens_padded: int) -> None:
    if slots.numel() < num_tokens_padded:
        raise ValueError(f"{name}.shape = ({slots.numel()},), must be at least ({num_tokens_padded},)")
