"""Slots of compressed states: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.cache_groups import compressed_slots as right
from cumae.gpu_impl import write_compressed_slots
from cumae.oracle import compressed_slots
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.values import splits_groups
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False, max_tokens=64, max_context_len=64, max_query_len=16)
Tensor = torch.Tensor


def of_chunk(first: int, count: int, ratio: int, own: list[int] | None = None, **ranks: int) -> list[int]:
    """Return the slots of a chunk in blocks 7 and 3 of two states each."""
    positions = list(range(first, first + count))
    slots = [0] * count if own is None else own
    return compressed_slots(
        [0] * count, positions, slots, [[7, 3]], [0], 2, ratio, count, **ranks
    ).compressed_slots


class TestCompressedSlots:
    def test_the_last_token_of_a_group_writes_its_state(self) -> None:
        assert of_chunk(0, 8, 2) == [-1, 14, -1, 15, -1, 6, -1, 7]

    def test_a_state_beyond_the_table_has_no_slot(self) -> None:
        assert of_chunk(7, 3, 2) == [7, -1, -1]

    def test_a_token_without_a_slot_writes_no_state(self) -> None:
        assert of_chunk(0, 4, 2, own=[3, -1, 4, 5]) == [-1, -1, -1, 15]

    def test_ranks_count_their_own_states(self) -> None:
        own = [-1, -1, 0, 1, -1, -1, 2, 3]
        ranks = {"world": 2, "rank": 1, "interleave": 2}
        assert of_chunk(0, 8, 2, own, **ranks) == [-1, -1, -1, 14, -1, -1, -1, 15]

    def test_a_group_on_several_ranks_is_refused(self) -> None:
        with pytest.raises(ValueError, match="compress_ratio = 2, must divide interleave = 1 when world > 1"):
            of_chunk(0, 2, 2, world=2)

    def test_a_buffer_shorter_than_the_step_is_refused(self) -> None:
        with pytest.raises(ValueError, match="num_slots = 1, must be >= 2"):
            compressed_slots([0, 0], [0, 1], [0, 1], [[7]], [0], 2, 2, 1)


def first_token_of_each_group(
    token_to_request: Tensor,
    position_ids: Tensor,
    slot_mapping: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    block_size: int,
    compress_ratio: int,
    world: int,
    rank: int,
    interleave: int,
    num_slots: int,
) -> Tensor:
    shifted = position_ids + compress_ratio - 1
    rest = (slot_mapping, block_table, row_index, block_size, compress_ratio, world, rank, interleave)
    return right(token_to_request, shifted, *rest, num_slots)


def tail_left_alone(
    token_to_request: Tensor,
    position_ids: Tensor,
    slot_mapping: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    block_size: int,
    compress_ratio: int,
    world: int,
    rank: int,
    interleave: int,
    num_slots: int,
    num_tokens: int,
    compressed_slots: Tensor,
) -> None:
    rest = (slot_mapping, block_table, row_index, block_size, compress_ratio, world, rank, interleave)
    found = right(token_to_request, position_ids, *rest, num_slots)
    compressed_slots[:num_tokens].copy_(found[:num_tokens])


@pytest.mark.parametrize(
    ("wrong", "check"), [(first_token_of_each_group, "agrees"), (tail_left_alone, "writes_everything")]
)
def test_a_wrong_one_is_found(wrong: Callable[..., Any], check: str) -> None:
    verdict = cumae.check(wrong, "compressed_slots", domain=TORCH, examples=30, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "token"


def test_no_drawn_group_lies_on_several_ranks() -> None:
    row = OPERATIONS["compressed_slots"]
    drawn = list(islice(seeded_cases(1, features=row.features), 300))
    assert not any(splits_groups(case) for case in drawn)
    assert sum(case.batch.world > 1 < case.options.keys.compress_ratio for case in drawn) > 30


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    return {
        "token_to_request": torch.tensor([0, 0, -1], dtype=torch.int32, device=DEVICE),
        "position_ids": torch.tensor([4, 5, 0], device=DEVICE),
        "slot_mapping": torch.tensor([28, 29, -1], device=DEVICE),
        "block_table": torch.tensor([[7, 3]], dtype=torch.int32, device=DEVICE),
        "row_index": None,
        "block_size": 2,
        "compress_ratio": 2,
        "world": 1,
        "rank": 0,
        "interleave": 2,
        "compressed_slots": torch.full((4,), 77, device=DEVICE),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("compress_ratio", 0, "compress_ratio = 0"),
        ("rank", 1, "rank = 1"),
        ("interleave", 0, "interleave = 0"),
        ("block_size", 0, "block_size = 0"),
        ("slot_mapping", torch.zeros(2, dtype=torch.int64), "slot_mapping.shape = (2,)"),
        ("compressed_slots", torch.full((2,), 77), "compressed_slots.shape = (2,)"),
        ("compressed_slots", torch.full((4,), 77, dtype=torch.int32), "compressed_slots.dtype = torch.int32"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_compressed_slots(**good)
    assert good["compressed_slots"].tolist() == [-1, 6, -1, -1]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_compressed_slots(**bad)
    assert (bad["compressed_slots"] == 77).all()


def test_the_launcher_refuses_groups_on_several_ranks() -> None:
    bad = arguments() | {"world": 2, "interleave": 1}
    with pytest.raises(ValueError, match="compress_ratio = 2, must divide interleave = 1"):
        write_compressed_slots(**bad)
    assert (bad["compressed_slots"] == 77).all()
