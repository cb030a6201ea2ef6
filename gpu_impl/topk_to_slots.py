"""The cache slots of the positions that each token selected, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_int, check_shard, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

# The most keys of a token that are loaded at once, and of several tokens together.
MOST_OF_TOKEN = 2048
MOST_OF_TOKENS = 1024
NUM_WARPS = 8


@triton.jit(
    do_not_specialize=[
        "num_rows",
        "table_width",
        "table_row_stride",
        "num_workspaces",
        "num_tokens_padded",
        "rank",
    ]
)
def _write_selected(
    token_to_request: tl.tensor,
    selected_positions: tl.tensor,
    block_table: tl.tensor,
    workspace_ids: tl.tensor,
    workspace_starts: tl.tensor,
    selected_slots: tl.tensor,
    num_valid: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_workspaces: tl.tensor,
    num_tokens_padded: tl.tensor,
    topk: tl.tensor,
    block_size: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    HAS_WORKSPACE: tl.constexpr,
    IS_SHARDED: tl.constexpr,
    IS_COMPACT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_token = o_token < num_tokens_padded
    i_row = tl.load(token_to_request + o_token, mask=m_token, other=-1).to(tl.int64)
    m_row = (i_row >= 0) & (i_row < num_rows)
    if HAS_WORKSPACE:
        i_workspace = tl.load(workspace_ids + o_token, mask=m_token, other=-1).to(tl.int64)
        m_row = m_row & (i_workspace < 0)
        m_workspace = (i_workspace >= 0) & (i_workspace < num_workspaces)
        start = tl.load(workspace_starts + i_workspace, mask=m_workspace, other=0)
    table_row = i_row * table_row_stride
    total = tl.full((ROWS,), 0, tl.int32)
    for i_key in range(0, topk, COLUMNS):
        # Keys are the first axis, tokens the second: a load from anywhere gets a layout whose first axis is
        # the fast one, and then no value changes its layout, which goes through shared memory.
        o_key = i_key + tl.arange(0, COLUMNS)
        m_key = (o_key < topk)[:, None] & m_token[None, :]
        o_index = o_key[:, None] + (o_token * topk)[None, :]
        selected = tl.load(selected_positions + o_index, mask=m_key, other=-1)
        m_slot = m_row[None, :] & (selected >= 0)
        position = tl.where(m_slot, selected, 0)
        if IS_SHARDED:
            i_run = position.to(tl.int64) // interleave
            m_slot = m_slot & (i_run % world == rank)
            position = i_run // world * interleave + position % interleave
        i_column = position // block_size
        m_slot = m_slot & (i_column < table_width)
        o_entry = table_row[None, :] + i_column.to(tl.int64) * table_column_stride
        block_id = tl.load(block_table + o_entry, mask=m_slot, other=-1).to(tl.int64)
        slot = tl.where(block_id >= 0, (block_id - i_column) * block_size + position, -1)
        if HAS_WORKSPACE:
            slot = tl.where(m_workspace[None, :] & (selected >= 0), start[None, :] + selected, slot)
        if IS_COMPACT:
            # Valid slots fill the row from its front, other slots from its end, so each element is written
            # once.
            is_valid = (slot >= 0).to(tl.int32)
            before = total[None, :] + tl.cumsum(is_valid, axis=0) - is_valid
            o_place = tl.where(slot >= 0, before, topk - 1 - (o_key[:, None] - before))
            total += tl.sum(is_valid, axis=0)
            o_index = o_place + (o_token * topk)[None, :]
        tl.store(selected_slots + o_index, slot.to(tl.int32), mask=m_key)
    if IS_COMPACT:
        tl.store(num_valid + o_token, total, mask=m_token)


def write_topk_to_slots(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    selected_slots: torch.Tensor,
    workspace_ids: torch.Tensor | None,
    workspace_starts: torch.Tensor | None,
) -> None:
    """Write the cache slot of each position that a token selected into selected_slots int32 [T * topk].

    token_to_request [T] (-1 means none), selected_positions [T, topk], contiguous: positions within the
    token's request (-1 means none); block_table [num_rows, width] of any strides (-1 means none), row b for
    request b, of blocks of block_size tokens; each int32 or int64. selected_slots is contiguous, every
    element is written, and -1 means none.
    The rank owns position p iff (p // interleave) % world == rank, as its local position
    l = p // (world * interleave) * interleave + p % interleave. The slot is
    table[b][l // block_size] * block_size + l % block_size, which must fit int32.
    -1 holds in padding rows, for no position and for one of another rank, for a row outside the table, for a
    column past its width (which is not read) and for a negative entry.
    With workspace_ids [T] (-1 means none) and workspace_starts [W], both or neither, each int32 or int64, a
    token with an id >= 0 has workspace_starts[id] + p for each position p in place of that, whatever the
    table and the rank; -1 holds for no position and for an id >= W.
    Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and where, with world > 1,
    interleave does not divide block_size, before anything is written.
    Rule: vLLM convert_req_index_to_global_index.

    >>> token_to_request, slots = torch.tensor([0, 2, 2, -1]), torch.empty(8, dtype=torch.int32)
    >>> positions = torch.tensor([[4, 1], [0, -1], [9, 1], [-1, -1]])
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> write_topk_to_slots(token_to_request, positions, table, 4, 1, 0, 1, slots, None, None)
    >>> slots.tolist()
    [20, 29, 8, -1, -1, 9, -1, -1]
    """
    launch_selected(
        token_to_request,
        selected_positions,
        block_table,
        block_size,
        world,
        rank,
        interleave,
        workspace_ids,
        workspace_starts,
        "selected_slots",
        selected_slots,
        None,
    )


def launch_selected(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: torch.Tensor | None,
    workspace_starts: torch.Tensor | None,
    slots_name: str,
    slots: torch.Tensor,
    num_valid: torch.Tensor | None,
) -> None:
    """Check everything, then write the slots; with num_valid int32 [T], write the valid slots of a row first.

    Raises ValueError, calling the slots by slots_name, before anything is written.
    """
    num_tokens_padded, topk = _check_selection(token_to_request, selected_positions)
    device = token_to_request.device
    check_tensor("block_table", block_table, INDEX_DTYPES, (None, None), device, contiguous=False)
    check_int("block_size", block_size, 1)
    check_shard(world, rank, interleave)
    if world > 1 and block_size % interleave:
        raise ValueError(f"interleave = {interleave}, must divide block_size = {block_size}")
    if workspace_ids is not None:
        check_indices("workspace_ids", workspace_ids, num_tokens_padded, device)
        check_indices("workspace_starts", workspace_starts, None, device)
    elif workspace_starts is not None:
        raise ValueError("workspace_ids = None, must be a tensor if workspace_starts is one")
    check_tensor(slots_name, slots, (torch.int32,), (num_tokens_padded * topk,), device)
    if num_valid is not None:
        check_tensor("num_valid", num_valid, (torch.int32,), (num_tokens_padded,), device)
    if num_tokens_padded == 0 or (topk == 0 and num_valid is None):
        return
    columns = min(triton.next_power_of_2(max(topk, 1)), MOST_OF_TOKEN)
    rows = max(1, MOST_OF_TOKENS // columns)
    with torch.cuda.device(token_to_request.get_device()):
        _write_selected[(-(-num_tokens_padded // rows),)](
            token_to_request,
            selected_positions,
            block_table,
            block_table if workspace_ids is None else workspace_ids,
            block_table if workspace_starts is None else workspace_starts,
            slots,
            slots if num_valid is None else num_valid,
            *block_table.shape,
            *block_table.stride(),
            0 if workspace_starts is None else workspace_starts.numel(),
            num_tokens_padded,
            topk,
            block_size,
            world,
            rank,
            interleave,
            HAS_WORKSPACE=workspace_ids is not None,
            IS_SHARDED=world > 1,
            IS_COMPACT=num_valid is not None,
            ROWS=rows,
            COLUMNS=columns,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )


def _check_selection(token_to_request: torch.Tensor, selected_positions: torch.Tensor) -> tuple[int, int]:
    check_indices("token_to_request", token_to_request, None)
    num_tokens_padded = token_to_request.numel()
    shape = (num_tokens_padded, None)
    check_tensor("selected_positions", selected_positions, INDEX_DTYPES, shape, token_to_request.device)
    return num_tokens_padded, selected_positions.shape[1]
