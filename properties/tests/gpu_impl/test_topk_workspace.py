"""Slots of selected positions in a prefill workspace, and the valid ones of a row in front: kernels."""

import random
import re
from typing import Any

import pytest
import torch

from cumae import gpu_impl
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
TABLE = [[7, 3, 9], [2, -1, 5]]
BLOCK_SIZE = 4


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def slots_by_kernel(owners: torch.Tensor, positions: torch.Tensor, *others: Any) -> torch.Tensor:
    """Return the slots written; workspaces may be left out."""
    slots = torch.full((positions.numel(),), 77, dtype=torch.int32, device=DEVICE)
    table, block_size, world, rank, interleave = others[:5]
    ids, starts = others[5:] or (None, None)
    gpu_impl.write_topk_to_slots(
        owners, positions, table, block_size, world, rank, interleave, slots, ids, starts
    )
    return slots


def compact_by_kernel(
    owners: torch.Tensor, positions: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the compact slots and their numbers written; workspaces may be left out."""
    found = tensor([77] * positions.numel()), tensor([77] * owners.numel())
    table, block_size, world, rank, interleave = others[:5]
    ids, starts = others[5:] or (None, None)
    gpu_impl.write_compact_topk_slots(
        owners, positions, table, block_size, world, rank, interleave, *found, ids, starts
    )
    return found


def slot_of(owner: int, position: int, world: int, rank: int, workspace: int, starts: list[int]) -> int:
    """Return one slot as the rule says it, interleave 1."""
    if position < 0:
        return -1
    if workspace >= 0:
        return starts[workspace] + position if workspace < len(starts) else -1
    if position % world != rank or not 0 <= owner < len(TABLE):
        return -1
    column, offset = divmod(position // world, BLOCK_SIZE)
    row = TABLE[owner]
    return row[column] * BLOCK_SIZE + offset if column < len(row) and row[column] >= 0 else -1


@pytest.mark.parametrize(("world", "rank"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("has_workspace", [False, True])
@pytest.mark.parametrize("topk", [1, 5, 2048, 4100])
def test_slots_and_their_compact_form_are_those_of_the_rule(
    topk: int, has_workspace: bool, world: int, rank: int
) -> None:
    draw = random.Random(topk)
    owners = [draw.randrange(-1, 4) for _ in range(7)]
    positions = [[draw.randrange(-3, 30) for _ in range(topk)] for _ in owners]
    starts, ids = [100, 1000, 70], [draw.randrange(-1, 4) for _ in owners]
    workspaces = (tensor(ids), tensor(starts)) if has_workspace else (None, None)
    expected = [
        [slot_of(owner, p, world, rank, workspace if has_workspace else -1, starts) for p in row]
        for owner, row, workspace in zip(owners, positions, ids, strict=True)
    ]
    inputs = (tensor(owners), tensor(positions), tensor(TABLE), BLOCK_SIZE, world, rank, 1, *workspaces)
    assert slots_by_kernel(*inputs).reshape(-1, topk).tolist() == expected
    compact_slots, num_valids = compact_by_kernel(*inputs)
    assert num_valids.tolist() == [sum(slot >= 0 for slot in row) for row in expected]
    for row, whole, num_valid in zip(
        compact_slots.reshape(-1, topk).tolist(), expected, num_valids.tolist(), strict=True
    ):
        assert sorted(row[:num_valid]) == sorted(slot for slot in whole if slot >= 0)
        assert row[num_valid:] == [-1] * (topk - num_valid)


def test_a_workspace_is_asked_neither_for_a_request_nor_for_a_rank() -> None:
    owners, positions = tensor([-1, 9, 0]), tensor([[0, 5], [1, -1], [40, 3]])
    inputs = (owners, positions, tensor(TABLE), BLOCK_SIZE, 8, 7, 1, tensor([1, 0, 1]), tensor([10, 200]))
    assert slots_by_kernel(*inputs).tolist() == [200, 205, 11, -1, 240, 203]


def test_a_workspace_that_is_not_there_is_not_read() -> None:
    inputs = (tensor([0, 0]), tensor([[1], [1]]), tensor(TABLE), BLOCK_SIZE, 1, 0, 1)
    assert slots_by_kernel(*inputs, tensor([0, -1]), tensor([])).tolist() == [-1, 29]


def test_the_last_slot_that_int32_holds_lies_in_a_workspace() -> None:
    positions, starts = torch.tensor([[2**31 - 8]], device=DEVICE), tensor([7])
    inputs = (tensor([0]), positions, tensor(TABLE), BLOCK_SIZE, 1, 0, 1, tensor([0]), starts)
    assert slots_by_kernel(*inputs).tolist() == [2**31 - 1]


def test_a_row_without_positions_has_no_valid_slot() -> None:
    positions = torch.zeros(3, 0, dtype=torch.int32, device=DEVICE)
    slots, num_valid = compact_by_kernel(tensor([0, 1, -1]), positions, tensor(TABLE), BLOCK_SIZE, 1, 0, 1)
    assert slots.tolist() == []
    assert num_valid.tolist() == [0, 0, 0]


def test_no_token_is_no_work() -> None:
    compact = compact_by_kernel(tensor([]), tensor([]).reshape(0, 4), tensor(TABLE), BLOCK_SIZE, 1, 0, 1)
    assert [part.tolist() for part in compact] == [[], []]


def selected() -> dict[str, Any]:
    return {
        "token_to_request": tensor([0, 1, -1]),
        "selected_positions": tensor([[3, 0], [1, -1], [9, 9]]),
        "block_table": tensor([[5], [6]]),
        "block_size": 4,
        "world": 1,
        "rank": 0,
        "interleave": 1,
        "workspace_ids": tensor([0, -1, -1]),
        "workspace_starts": tensor([8]),
    }


def topk_to_slots() -> dict[str, Any]:
    return {**selected(), "selected_slots": tensor([77] * 6)}


def compact_topk_slots() -> dict[str, Any]:
    return {**selected(), "compact_slots": tensor([77] * 6), "num_valid": tensor([77] * 3)}


@pytest.mark.parametrize(
    ("make", "field", "value", "says"),
    [
        (topk_to_slots, "workspace_ids", None, "workspace_ids = None"),
        (topk_to_slots, "workspace_starts", None, "workspace_starts = None"),
        (topk_to_slots, "workspace_ids", tensor([0, -1]), "workspace_ids.shape = (2,)"),
        (topk_to_slots, "workspace_starts", tensor([8]).float(), "workspace_starts.dtype = torch.float32"),
        (compact_topk_slots, "workspace_starts", tensor([[8]]), "workspace_starts.shape = (1, 1)"),
        (compact_topk_slots, "compact_slots", tensor([[77] * 6]), "compact_slots.shape = (1, 6)"),
        (compact_topk_slots, "compact_slots", tensor([77] * 6).long(), "compact_slots.dtype = torch.int64"),
        (compact_topk_slots, "num_valid", tensor([77] * 4), "num_valid.shape = (4,)"),
        (compact_topk_slots, "num_valid", None, "num_valid = None"),
        (compact_topk_slots, "rank", 1, "rank = 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    make: Any, field: str, value: Any, says: str
) -> None:
    launcher = getattr(gpu_impl, f"write_{make.__name__}")
    launcher(**make())
    arguments = make() | {field: value}
    before = {n: v.clone() for n, v in arguments.items() if isinstance(v, torch.Tensor)}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        launcher(**arguments)
    for name, held in before.items():
        assert torch.equal(arguments[name], held)
