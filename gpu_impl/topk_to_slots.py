"""The cache slots of the positions that each token selected, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_int, check_shard, check_tensor

KEYS_PER_BLOCK = 2048


@triton.jit(do_not_specialize=["num_rows", "table_width", "table_row_stride", "num_tokens_padded", "rank"])
def _write_selected(
    token_to_request: tl.tensor,
    selected_positions: tl.tensor,
    block_table: tl.tensor,
    selected_slots: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_tokens_padded: tl.tensor,
    topk: tl.tensor,
    block_size: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    IS_SHARDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    o_token = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_token = o_token < num_tokens_padded
    i_row = tl.load(token_to_request + o_token, mask=m_token, other=-1).to(tl.int64)
    m_row = (i_row >= 0) & (i_row < num_rows)
    table_row = i_row * table_row_stride
    for i_key in range(0, topk, COLUMNS):
        o_key = i_key + tl.arange(0, COLUMNS)
        m_key = m_token[:, None] & (o_key < topk)[None, :]
        o_index = (o_token * topk)[:, None] + o_key[None, :]
        position = tl.load(selected_positions + o_index, mask=m_key, other=-1)
        m_slot = m_row[:, None] & (position >= 0)
        position = tl.where(m_slot, position, 0)
        if IS_SHARDED:
            i_run = position.to(tl.int64) // interleave
            m_slot = m_slot & (i_run % world == rank)
            position = i_run // world * interleave + position % interleave
        i_column = position // block_size
        m_slot = m_slot & (i_column < table_width)
        o_entry = table_row[:, None] + i_column.to(tl.int64) * table_column_stride
        block_id = tl.load(block_table + o_entry, mask=m_slot, other=-1).to(tl.int64)
        slot = tl.where(block_id >= 0, block_id * block_size + position % block_size, -1)
        tl.store(selected_slots + o_index, slot.to(tl.int32), mask=m_key)


def write_topk_to_slots(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    selected_slots: torch.Tensor,
) -> None:
    """Write the cache slot of each selected position into selected_slots int32 [T * topk], contiguous.

    Inputs and meaning as in `topk_to_slots`; every element is written. Neither synchronises nor allocates: it
    can be captured.
    """
    num_tokens_padded, topk = _check_selection(token_to_request, selected_positions)
    device = token_to_request.device
    check_tensor("block_table", block_table, INDEX_DTYPES, (None, None), device, contiguous=False)
    check_int("block_size", block_size, 1)
    check_shard(world, rank, interleave)
    if world > 1 and block_size % interleave:
        raise ValueError(f"interleave = {interleave}, must divide block_size = {block_size}")
    check_tensor("selected_slots", selected_slots, (torch.int32,), (num_tokens_padded * topk,), device)
    if selected_slots.numel() == 0:
        return
    columns = min(triton.next_power_of_2(topk), KEYS_PER_BLOCK)
    rows = KEYS_PER_BLOCK // columns
    with torch.cuda.device(token_to_request.get_device()):
        _write_selected[(-(-num_tokens_padded // rows),)](
            token_to_request,
            selected_positions,
            block_table,
            selected_slots,
            *block_table.shape,
            *block_table.stride(),
            num_tokens_padded,
            topk,
            block_size,
            world,
            rank,
            interleave,
            IS_SHARDED=world > 1,
            ROWS=rows,
            COLUMNS=columns,
        )


def topk_to_slots(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
) -> torch.Tensor:
    """Return the cache slot of each position that a token selected, int32 [T * topk], -1 meaning none.

    token_to_request [T] (-1 means none), selected_positions [T, topk], contiguous: positions within the
    token's request (-1 means none); block_table [num_rows, width] of any strides (-1 means none), row b for
    request b, of blocks of block_size tokens; each int32 or int64.
    The rank owns position p iff (p // interleave) % world == rank, as its local position
    l = p // (world * interleave) * interleave + p % interleave. The slot is
    table[b][l // block_size] * block_size + l % block_size, which must fit int32.
    -1 holds in padding rows, for no position and for one of another rank, for a row outside the table, for a
    column past its width (which is not read) and for a negative entry.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and where, with world > 1,
    interleave does not divide block_size, before anything is written.
    Rule: vLLM convert_req_index_to_global_index.

    >>> token_to_request = torch.tensor([0, 2, 2, -1])
    >>> positions = torch.tensor([[4, 1], [0, -1], [9, 1], [-1, -1]])
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> topk_to_slots(token_to_request, positions, table, 4, 1, 0, 1).tolist()
    [20, 29, 8, -1, -1, 9, -1, -1]
    """
    num_tokens_padded, topk = _check_selection(token_to_request, selected_positions)
    output = torch.empty(num_tokens_padded * topk, dtype=torch.int32, device=token_to_request.device)
    write_topk_to_slots(
        token_to_request, selected_positions, block_table, block_size, world, rank, interleave, output
    )
    return output


def _check_selection(token_to_request: torch.Tensor, selected_positions: torch.Tensor) -> tuple[int, int]:
    check_indices("token_to_request", token_to_request, None)
    num_tokens_padded = token_to_request.numel()
    shape = (num_tokens_padded, None)
    check_tensor("selected_positions", selected_positions, INDEX_DTYPES, shape, token_to_request.device)
    return num_tokens_padded, selected_positions.shape[1]
