"""Compact slots in plain torch, each wrong on purpose in one thing; one is right, in no fixed order."""

from itertools import count

import torch

from cumae.fixtures.correct import selections

Workspace = torch.Tensor | None
Compact = tuple[torch.Tensor, torch.Tensor]
_CALLS = count()
_BEFORE: list[torch.Tensor] = []


def _ranks(valid: torch.Tensor) -> torch.Tensor:
    """Return the place of each entry of a row if those that are valid come first."""
    return valid.int().sort(dim=1, descending=True, stable=True).indices


def in_another_order_at_each_call(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    workspace_ids: Workspace,
    workspace_starts: Workspace,
) -> Compact:
    place = (block_table, block_size, world, rank, interleave, workspace_ids, workspace_starts)
    slots = selections.topk_to_slots(token_to_request, selected_positions, *place)
    slots = slots.reshape(selected_positions.shape)
    order = torch.randperm(slots.shape[1], generator=torch.Generator().manual_seed(next(_CALLS)))
    slots = slots[:, order.to(slots.device)]
    return slots.gather(1, _ranks(slots >= 0)).flatten(), (slots >= 0).sum(1).int()


def gaps_left_where_they_are(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
) -> Compact:
    place = (block_table, block_size, world, rank, interleave, None, None)
    slots = selections.topk_to_slots(token_to_request, selected_positions, *place)
    return slots, (slots.reshape(selected_positions.shape) >= 0).sum(1).int()


def first_slot_twice(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    slots, num_valid = _right(token_to_request, selected_positions, block_table, block_size)
    rows = slots.reshape(selected_positions.shape)
    if rows.shape[1] > 1:
        rows[:, 1] = torch.where(num_valid > 1, rows[:, 0], rows[:, 1])
    return rows.flatten(), num_valid


def slots_left_behind_the_last(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    slots, num_valid = _right(token_to_request, selected_positions, block_table, block_size)
    rows = slots.reshape(selected_positions.shape)
    return torch.where(rows < 0, rows.amax(1, keepdim=True), rows).flatten(), num_valid


def selections_counted(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    slots, _ = _right(token_to_request, selected_positions, block_table, block_size)
    known = (selected_positions >= 0) & (token_to_request >= 0)[:, None]
    return slots, known.sum(1).int()


def last_valid_slot_left_alone(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    compact_slots: torch.Tensor,
    num_valid: torch.Tensor,
) -> None:
    slots, counts = _right(token_to_request, selected_positions, block_table, block_size)
    place = torch.arange(slots.numel(), device=slots.device).reshape(selected_positions.shape)
    first = place[:, :1]
    written = (place != first + counts[:, None] - 1).flatten()
    compact_slots[written] = slots[written]
    num_valid.copy_(counts)


def nothing_behind_the_valid_ones(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    compact_slots: torch.Tensor,
    num_valid: torch.Tensor,
) -> None:
    slots, counts = _right(token_to_request, selected_positions, block_table, block_size)
    compact_slots[slots >= 0] = slots[slots >= 0]
    num_valid.copy_(counts)


def slots_moved_by_padding(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    slots, num_valid = _right(token_to_request, selected_positions, block_table, block_size)
    padding = selected_positions[token_to_request < 0]
    by = int((padding >= 0).any())
    return torch.where(slots >= 0, slots + by, slots), num_valid


def first_slot_twice_when_asked_again(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    inputs = (token_to_request, selected_positions, block_table, block_size)
    asked_again = bool(_BEFORE) and torch.equal(_BEFORE.pop(), selected_positions)
    if not asked_again:
        _BEFORE.append(selected_positions.clone())
    return first_slot_twice(*inputs) if asked_again else _right(*inputs)


def _right(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
) -> Compact:
    place = (block_table, block_size, 1, 0, 1, None, None)
    return selections.compact_topk_slots(token_to_request, selected_positions, *place)
