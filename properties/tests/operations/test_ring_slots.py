"""Slots of rings: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.cache_groups import ring_slots as right
from cumae.gpu_impl import write_ring_slots
from cumae.oracle import ring_slots
from cumae.properties.cases.domain import Domain
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False, max_tokens=64, max_context_len=64, max_query_len=16)
Tensor = torch.Tensor


def of_positions(*positions: int, block: int = 7, capacity: int = 4) -> list[int]:
    count = len(positions)
    return ring_slots([0] * count, positions, [[block, 3]], [0], capacity, count).ring_slots


class TestRingSlots:
    def test_a_round_has_as_many_places_as_the_capacity(self) -> None:
        assert of_positions(0, 3, 4, 9) == [28, 31, 28, 29]

    def test_tokens_a_capacity_apart_share_a_place(self) -> None:
        for position in range(20):
            first, second = of_positions(position, position + 5, capacity=5)
            assert first == second

    def test_only_the_first_block_counts(self) -> None:
        assert of_positions(100, block=2, capacity=3) == [7]

    def test_the_dummy_block_has_no_places(self) -> None:
        assert of_positions(5, block=0) == of_positions(5, block=-1) == [-1]

    def test_a_table_without_columns_has_no_rings(self) -> None:
        assert ring_slots([0], [3], [[]], [0], 4, 2).ring_slots == [-1, -1]

    def test_a_buffer_shorter_than_the_step_is_refused(self) -> None:
        with pytest.raises(ValueError, match="num_slots = 1, must be >= 2"):
            ring_slots([0, 0], [0, 1], [[7]], [0], 4, 1)


def none_is_slot_zero(
    token_to_request: Tensor,
    position_ids: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    ring_capacity: int,
    num_slots: int,
) -> Tensor:
    found = right(token_to_request, position_ids, block_table, row_index, ring_capacity, num_slots)
    return torch.where(found >= 0, found, 0)


def tail_left_alone(
    token_to_request: Tensor,
    position_ids: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    ring_capacity: int,
    num_slots: int,
    num_tokens: int,
    ring_slots: Tensor,
) -> None:
    found = right(token_to_request, position_ids, block_table, row_index, ring_capacity, num_slots)
    ring_slots[:num_tokens].copy_(found[:num_tokens])


@pytest.mark.parametrize(
    ("wrong", "check"), [(none_is_slot_zero, "agrees"), (tail_left_alone, "writes_everything")]
)
def test_a_wrong_one_is_found(wrong: Callable[..., Any], check: str) -> None:
    verdict = cumae.check(wrong, "ring_slots", domain=TORCH, examples=30, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "token"


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    return {
        "token_to_request": torch.tensor([0, 1, -1], dtype=torch.int32, device=DEVICE),
        "position_ids": torch.tensor([9, 4, 0], device=DEVICE),
        "block_table": torch.tensor([[7, 3], [0, 5]], dtype=torch.int32, device=DEVICE),
        "row_index": None,
        "ring_capacity": 4,
        "ring_slots": torch.full((4,), 77, device=DEVICE),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("ring_capacity", 0, "ring_capacity = 0"),
        ("position_ids", torch.zeros(2, dtype=torch.int64), "position_ids."),
        ("block_table", torch.zeros(2, dtype=torch.int32), "block_table"),
        ("ring_slots", torch.full((2,), 77), "ring_slots.shape = (2,)"),
        ("ring_slots", torch.full((4,), 77, dtype=torch.int32), "ring_slots.dtype = torch.int32"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_ring_slots(**good)
    assert good["ring_slots"].tolist() == [29, -1, -1, -1]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_ring_slots(**bad)
    assert (bad["ring_slots"] == 77).all()
