"""The slot of each token in its request's ring of states, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.table_rows import check_table, find_rows

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit(
    do_not_specialize=["num_requests", "num_rows", "table_row_stride", "num_tokens_padded", "num_slots"]
)
def _write_ring_slots(
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    ring_slots: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_row_stride: tl.tensor,
    num_tokens_padded: tl.tensor,
    num_slots: tl.tensor,
    ring_capacity: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    i_request = tl.load(token_to_request + o_token, mask=o_token < num_tokens_padded, other=-1)
    m_slot = (i_request >= 0) & (i_request < num_requests)
    i_row, m_slot = find_rows(row_index, i_request, m_slot, num_rows, HAS_ROW_INDEX)
    position = tl.load(position_ids + o_token, mask=m_slot, other=-1).to(tl.int64)
    m_slot = m_slot & (position >= 0)
    first = tl.load(block_table + i_row * table_row_stride, mask=m_slot, other=0).to(tl.int64)
    # Block 0 is the dummy that padded table rows hold.
    slot = tl.where(first > 0, first * ring_capacity + position % ring_capacity, -1)
    tl.store(ring_slots + o_token, slot, mask=o_token < num_slots)


def write_ring_slots(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    ring_capacity: int,
    ring_slots: torch.Tensor,
) -> None:
    """Write the slot of each token in its request's ring into ring_slots int64 [S], contiguous, -1 is none.

    token_to_request [T] (-1 means none: a map padded with 0 has no place here), position_ids [T], block_table
    [num_rows, width] of any strides, row_index [R] (the table row of each request, -1 means none) or None
    (request b has row b); each int32 or int64. Only the first column of the table is read.
    A request's last ring_capacity tokens lie in one block of ring_capacity slots, the first of its table row:
    the slot of position p is first * ring_capacity + p % ring_capacity, in int64.
    -1 holds in padding rows, those with a negative request or position, for a row outside the table, where
    first <= 0 (block 0 is a dummy), in a table without columns, and in the rows T .. S-1, with S >= T. All S
    rows are written.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM compute_kpool_tail_slot_mapping.

    >>> token_to_request, positions = torch.tensor([0, 0, 2, 2, -1]), torch.tensor([3, 4, 8, 9, 0])
    >>> table, slots = torch.tensor([[7, 5], [9, -1], [2, -1]]), torch.empty(6, dtype=torch.int64)
    >>> write_ring_slots(token_to_request, positions, table, None, 4, slots)
    >>> slots.tolist()
    [31, 28, 8, 9, -1, -1]
    """
    check_indices("token_to_request", token_to_request, None)
    device, num_tokens_padded = token_to_request.device, token_to_request.numel()
    check_indices("position_ids", position_ids, num_tokens_padded, device)
    check_table(block_table, row_index, None, device)
    check_int("ring_capacity", ring_capacity, 1)
    check_tensor("ring_slots", ring_slots, (torch.int64,), (None,), device)
    num_slots = ring_slots.numel()
    if num_slots < num_tokens_padded:
        raise ValueError(f"ring_slots.shape = ({num_slots},), must be at least ({num_tokens_padded},)")
    if num_slots == 0:
        return
    num_rows, table_width = block_table.shape
    with torch.cuda.device(token_to_request.get_device()):
        _write_ring_slots[(-(-num_slots // TOKENS_PER_TILE),)](
            token_to_request,
            position_ids,
            block_table,
            block_table if row_index is None else row_index,
            ring_slots,
            num_rows if row_index is None else row_index.numel(),
            num_rows if table_width > 0 else 0,
            block_table.stride(0),
            num_tokens_padded,
            num_slots,
            ring_capacity,
            HAS_ROW_INDEX=row_index is not None,
            TILE=TOKENS_PER_TILE,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )
