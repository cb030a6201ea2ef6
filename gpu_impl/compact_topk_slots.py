"""The cache slots of the positions that each token selected, valid slots first."""

import torch

from cumae.gpu_impl.topk_to_slots import launch_selected


def write_compact_topk_slots(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    compact_slots: torch.Tensor,
    num_valid: torch.Tensor,
    workspace_ids: torch.Tensor | None,
    workspace_starts: torch.Tensor | None,
) -> None:
    """Write each token's slots into compact_slots [T * topk], valid ones first, and counts into num_valid.

    Inputs and errors as in `write_topk_to_slots`. Row t, compact_slots[t * topk : (t + 1) * topk], holds its
    num_valid[t] slots that are not -1 in unspecified order, then -1; every element is written. Does not
    synchronise or allocate, so a CUDA graph can capture it.
    Rule: vLLM triton_filter_and_convert_dcp_index, with context parallelism.

    >>> token_to_request = torch.tensor([0, 2, -1])
    >>> positions = torch.tensor([[-1, 4, 9, 1], [0, -1, -1, 3], [-1, -1, -1, -1]])
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> slots, num_valid = torch.empty(12, dtype=torch.int32), torch.empty(3, dtype=torch.int32)
    >>> write_compact_topk_slots(token_to_request, positions, table, 4, 1, 0, 1, slots, num_valid, None, None)
    >>> [sorted(row) for row in slots.reshape(3, 4).tolist()], num_valid.tolist()
    ([[-1, -1, 20, 29], [-1, -1, 8, 11], [-1, -1, -1, -1]], [2, 2, 0])
    """
    if num_valid is None:
        raise ValueError("num_valid = None, must be a tensor")
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
        "compact_slots",
        compact_slots,
        num_valid,
    )
