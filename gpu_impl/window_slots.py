"""The cache slots of the last positions that each token sees, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.table_rows import check_table, find_rows

# A thread has four slots of a tile: each of its loads waits for the one before.
SLOTS_PER_TILE = 1024
MAX_COLUMNS = 256
NUM_WARPS = 8


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_rows",
        "table_width",
        "table_row_stride",
        "num_tokens_padded",
        "window",
    ]
)
def _write_window_slots(
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    window_slots: tl.tensor,
    window_lens: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_tokens_padded: tl.tensor,
    width: tl.tensor,
    block_size: tl.tensor,
    window: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0).to(tl.int64)
    tiles_per_row = (width - 1) // COLUMNS + 1
    i_column_tile = i_tile % tiles_per_row
    o_token = i_tile // tiles_per_row * ROWS + tl.arange(0, ROWS)
    o_column = (i_column_tile * COLUMNS).to(tl.int32) + tl.arange(0, COLUMNS)
    m_token = o_token < num_tokens_padded
    i_request = tl.load(token_to_request + o_token, mask=m_token, other=-1)
    m_live = i_request >= 0
    position = tl.load(position_ids + o_token, mask=m_live, other=-1)
    position = tl.maximum(position, -1).to(tl.int32)
    first = tl.maximum(position - (window - 1), 0)
    num_slots = tl.maximum(position - first + 1, 0)
    if i_column_tile == 0:
        tl.store(window_lens + o_token, num_slots, mask=m_token)
    i_row, m_row = find_rows(
        row_index, i_request, m_live & (i_request < num_requests), num_rows, HAS_ROW_INDEX
    )
    m_slot = m_row[:, None] & (o_column[None, :] < num_slots[:, None])
    key = tl.where(m_slot, first[:, None] + o_column[None, :], 0)
    i_block = key // block_size
    m_slot = m_slot & (i_block < table_width)
    o_entry = (i_row * table_row_stride)[:, None] + i_block.to(tl.int64) * table_column_stride
    block_id = tl.load(block_table + o_entry, mask=m_slot, other=-1).to(tl.int64)
    slot = tl.where(block_id >= 0, block_id * block_size + key % block_size, -1).to(tl.int32)
    o_slot = (o_token * width)[:, None] + o_column[None, :]
    tl.store(window_slots + o_slot, slot, mask=m_token[:, None] & (o_column < width)[None, :])


def write_window_slots(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    block_size: int,
    window: int,
    window_slots: torch.Tensor,
    window_lens: torch.Tensor,
) -> None:
    """Write the cache slots of the last `window` positions that each token sees, and how many there are.

    token_to_request [T] (-1 means none: a map padded with 0 has no place here), position_ids [T], below
    2**31, block_table [num_rows, width] of any strides (-1 means none), row_index [R] (the table row of each
    request, -1 means none) or None (request b has row b); each int32 or int64. block_size in tokens,
    window >= 0; 0 is no limit but the columns.
    window_slots int32 [T, W], W >= max(window, 1), contiguous. Row t, p = position_ids[t], holds the slots of
    the positions max(p - window + 1, 0) .. p in this order, then -1. The slot of position k is
    table[row][k // block_size] * block_size + k % block_size, which must fit int32. A position holds -1 in
    its place if the row lies outside the table, if its column lies past the table's width (it is not read),
    or if its entry is negative. window_lens int32 [T] counts the positions, those without a slot included:
    min(p + 1, window), or min(p + 1, W) without a limit.
    Padding rows, those with a negative request or position, hold -1 and the count 0. Every element is
    written.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM _compute_swa_indices_and_lens_kernel.

    >>> token_to_request, positions = torch.tensor([0, 0, 2, 2, 2, -1]), torch.tensor([3, 4, 0, 1, 2, 0])
    >>> table, lens = torch.tensor([[7, 5], [9, -1], [2, -1]]), torch.empty(6, dtype=torch.int32)
    >>> slots = torch.empty((6, 3), dtype=torch.int32)
    >>> write_window_slots(token_to_request, positions, table, None, 4, 2, slots, lens)
    >>> slots.tolist()
    [[30, 31, -1], [31, 20, -1], [8, -1, -1], [8, 9, -1], [9, 10, -1], [-1, -1, -1]]
    >>> lens.tolist()
    [2, 2, 1, 2, 2, 0]
    """
    check_indices("token_to_request", token_to_request, None)
    device, num_tokens_padded = token_to_request.device, token_to_request.numel()
    check_indices("position_ids", position_ids, num_tokens_padded, device)
    check_table(block_table, row_index, None, device)
    check_int("block_size", block_size, 1)
    check_int("window", window, 0)
    check_tensor("window_slots", window_slots, (torch.int32,), (num_tokens_padded, None), device)
    width = window_slots.shape[1]
    least = max(window, 1)
    if width < least:
        sizes = tuple(window_slots.shape)
        raise ValueError(f"window_slots.shape = {sizes}, must be at least ({num_tokens_padded}, {least})")
    check_tensor("window_lens", window_lens, (torch.int32,), (num_tokens_padded,), device)
    if num_tokens_padded == 0:
        return
    num_rows, table_width = block_table.shape
    columns = min(triton.next_power_of_2(width), MAX_COLUMNS)
    rows = SLOTS_PER_TILE // columns
    with torch.cuda.device(token_to_request.get_device()):
        _write_window_slots[(-(-num_tokens_padded // rows) * -(-width // columns),)](
            token_to_request,
            position_ids,
            block_table,
            block_table if row_index is None else row_index,
            window_slots,
            window_lens,
            num_rows if row_index is None else row_index.numel(),
            num_rows,
            table_width,
            *block_table.stride(),
            num_tokens_padded,
            width,
            block_size,
            window or width,
            HAS_ROW_INDEX=row_index is not None,
            ROWS=rows,
            COLUMNS=columns,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )
