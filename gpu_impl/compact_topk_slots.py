"""The cache slots of the positions that each token selected, valid slots first."""

from typing import NamedTuple

import torch

from cumae.gpu_impl.topk_to_slots import allocate_slots, launch_selected


class CompactTopkSlots(NamedTuple):
    """Slots, valid ones first in each row, int32 [T * topk], and how many of a row are valid, int32 [T]."""

    compact_slots: torch.Tensor
    num_valid: torch.Tensor


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

    Both outputs are int32 and contiguous, num_valid is [T], and every element is written. Inputs and meaning
    as in `compact_topk_slots`. Does not synchronise or allocate, so a CUDA graph can capture it.
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


def compact_topk_slots(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: torch.Tensor | None = None,
    workspace_starts: torch.Tensor | None = None,
) -> CompactTopkSlots:
    """Return the slots of `topk_to_slots` with the valid slots first in each row, and the number of these.

    Inputs and errors are those of `topk_to_slots`. Row t is compact_slots[t * topk : (t + 1) * topk]: its
    num_valid[t] slots that are not -1, in unspecified order, then -1.
    Rule: vLLM triton_filter_and_convert_dcp_index, with context parallelism.

    >>> token_to_request = torch.tensor([0, 2, -1])
    >>> positions = torch.tensor([[-1, 4, 9, 1], [0, -1, -1, 3], [-1, -1, -1, -1]])
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> slots, num_valid = compact_topk_slots(token_to_request, positions, table, 4, 1, 0, 1)
    >>> [sorted(row) for row in slots.reshape(3, 4).tolist()], num_valid.tolist()
    ([[-1, -1, 20, 29], [-1, -1, 8, 11], [-1, -1, -1, -1]], [2, 2, 0])
    """
    slots = allocate_slots(token_to_request, selected_positions)
    num_valid = torch.empty(token_to_request.numel(), dtype=torch.int32, device=token_to_request.device)
    write_compact_topk_slots(
        token_to_request,
        selected_positions,
        block_table,
        block_size,
        world,
        rank,
        interleave,
        slots,
        num_valid,
        workspace_ids,
        workspace_starts,
    )
    return CompactTopkSlots(slots, num_valid)
