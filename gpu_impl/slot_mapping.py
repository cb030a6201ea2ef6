"""The cache slot of each token, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_shard, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.table_rows import check_table, find_rows

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit
def find_slots(
    block_table: tl.tensor,
    i_row: tl.tensor,
    position: tl.tensor,
    m_slot: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    kernel_block_size: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    IS_SHARDED: tl.constexpr,
) -> tl.tensor:
    """Return the slot of each position, int64, -1 where the rank, the table or m_slot has none.

    i_row: a row of the table, int64; position: any integer, not negative where m_slot holds.
    """
    position = tl.where(m_slot, position, 0)
    if IS_SHARDED:
        position = position.to(tl.int64)
        i_run = position // interleave
        m_slot = m_slot & (i_run % world == rank)
        position = i_run // world * interleave + position % interleave
    i_column = position // kernel_block_size
    m_slot = m_slot & (i_column < table_width)
    entry = i_row * table_row_stride + i_column.to(tl.int64) * table_column_stride
    block_id = tl.load(block_table + entry, mask=m_slot, other=-1).to(tl.int64)
    return tl.where(block_id >= 0, block_id * kernel_block_size + position % kernel_block_size, -1)


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_rows",
        "table_width",
        "table_row_stride",
        "num_tokens_padded",
        "num_slots",
        "rank",
    ]
)
def _write_slots(
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    slot_mapping: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_tokens_padded: tl.tensor,
    num_slots: tl.tensor,
    kernel_block_size: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    IS_SHARDED: tl.constexpr,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    i_request = tl.load(token_to_request + o_token, mask=o_token < num_tokens_padded, other=-1)
    m_slot = (i_request >= 0) & (i_request < num_requests)
    i_row, m_slot = find_rows(row_index, i_request, m_slot, num_rows, HAS_ROW_INDEX)
    position = tl.load(position_ids + o_token, mask=m_slot, other=0).to(tl.int64)
    slot = find_slots(
        block_table,
        i_row,
        position,
        m_slot & (position >= 0),
        table_width,
        table_row_stride,
        table_column_stride,
        kernel_block_size,
        world,
        rank,
        interleave,
        IS_SHARDED,
    )
    tl.store(slot_mapping + o_token, slot, mask=o_token < num_slots)


def write_slot_mapping(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    block_size: int,
    kernel_block_size: int,
    world: int,
    rank: int,
    interleave: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Write the cache slot of each token on one rank into slot_mapping int64 [S], contiguous, -1 is none.

    token_to_request [T] (-1 means none: a map padded with 0 has no place here), position_ids [T], block_table
    [num_rows, width] of any strides (-1 means none), row_index [R] (the table row of each request, -1 means
    none) or None (request b has row b); each int32 or int64. block_size is the manager's, in tokens; the
    table holds blocks of kernel_block_size tokens, which divides it.
    The rank owns position p iff (p // interleave) % world == rank, as its local position
    l = p // (world * interleave) * interleave + p % interleave. The slot is table[row][l // k] * k + l % k
    with k the kernel_block_size, in int64.
    -1 holds in padding rows, for positions of other ranks, for a row outside the table, for a column past its
    width (which is not read), for a negative entry, and in the rows T .. S-1, with S >= T. All S rows are
    written. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and where kernel_block_size or,
    with world > 1, interleave does not divide block_size, before anything is written.
    Rule: vLLM slot_mapping, vllm#36580 (padding), vllm#54296 (columns), FastDeploy#7367 (int64).

    >>> token_to_request, positions = torch.tensor([0, 0, 2, 2, 2, -1]), torch.tensor([3, 4, 0, 1, 2, 0])
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> slots = torch.empty(6, dtype=torch.int64)
    >>> write_slot_mapping(token_to_request, positions, table, None, 4, 4, 1, 0, 1, slots)
    >>> slots.tolist()
    [31, 20, 8, 9, 10, -1]
    """
    check_indices("token_to_request", token_to_request, None)
    device, num_tokens_padded = token_to_request.device, token_to_request.numel()
    check_indices("position_ids", position_ids, num_tokens_padded, device)
    check_table(block_table, row_index, None, device)
    check_blocks(block_size, kernel_block_size, world, rank, interleave)
    check_tensor("slot_mapping", slot_mapping, (torch.int64,), (None,), device)
    num_slots = slot_mapping.numel()
    if num_slots < num_tokens_padded:
        raise ValueError(f"slot_mapping.shape = ({num_slots},), must be at least ({num_tokens_padded},)")
    if num_slots == 0:
        return
    num_rows, table_width = block_table.shape
    with torch.cuda.device(token_to_request.get_device()):
        _write_slots[(-(-num_slots // TOKENS_PER_TILE),)](
            token_to_request,
            position_ids,
            block_table,
            block_table if row_index is None else row_index,
            slot_mapping,
            num_rows if row_index is None else row_index.numel(),
            num_rows,
            table_width,
            *block_table.stride(),
            num_tokens_padded,
            num_slots,
            kernel_block_size,
            world,
            rank,
            interleave,
            HAS_ROW_INDEX=row_index is not None,
            IS_SHARDED=world > 1,
            TILE=TOKENS_PER_TILE,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )


def check_blocks(block_size: int, kernel_block_size: int, world: int, rank: int, interleave: int) -> None:
    """Raise ValueError unless kernel blocks divide the manager's, and so do the runs of several ranks."""
    check_int("block_size", block_size, 1)
    check_int("kernel_block_size", kernel_block_size, 1)
    if block_size % kernel_block_size:
        raise ValueError(f"kernel_block_size = {kernel_block_size}, must divide block_size = {block_size}")
    check_shard(world, rank, interleave)
    if world > 1 and block_size % interleave:
        raise ValueError(f"interleave = {interleave}, must divide block_size = {block_size}")
