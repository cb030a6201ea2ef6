"""Slots of windows: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.cache_groups import window_slots as right
from cumae.gpu_impl import write_window_slots
from cumae.oracle import window_slots
from cumae.properties.cases.domain import Domain
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False, max_tokens=64, max_context_len=64, max_query_len=16)
TABLE = [[7, 3], [5]]
Tensor = torch.Tensor


def of_token(position: int, window: int, columns: int, request: int = 0) -> list[int]:
    return window_slots([request], [position], TABLE, [0, 1], 4, window, columns).window_slots


class TestWindowSlots:
    def test_the_token_itself_stands_last(self) -> None:
        assert of_token(5, 3, 4) == [31, 12, 13, -1]

    def test_a_window_of_one_holds_the_token_alone(self) -> None:
        assert of_token(5, 1, 2) == [13, -1]

    def test_a_short_request_has_fewer_keys_than_the_window(self) -> None:
        assert of_token(1, 3, 3) == [28, 29, -1]

    def test_a_column_beyond_the_table_keeps_its_place(self) -> None:
        found = window_slots([1], [4], TABLE, [0, 1], 4, 3, 3)
        assert found == ([22, 23, -1], [3])

    def test_without_a_limit_the_columns_are_the_limit(self) -> None:
        assert of_token(5, 0, 2) == of_token(5, 2, 2)

    def test_fewer_columns_than_the_window_are_refused(self) -> None:
        with pytest.raises(ValueError, match="window_columns = 2, must be >= 3"):
            of_token(5, 3, 2)

    def test_a_slot_beyond_32_bits_is_refused(self) -> None:
        with pytest.raises(ValueError, match="slot = 2147483648, must be <= 2147483647"):
            window_slots([0], [0], [[2**29]], [0], 4, 1, 1)


def newest_first(
    token_to_request: Tensor,
    position_ids: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    block_size: int,
    window: int,
    window_slots: Tensor,
    window_lens: Tensor,
) -> None:
    right(
        token_to_request,
        position_ids,
        block_table,
        row_index,
        block_size,
        window,
        window_slots,
        window_lens,
    )
    window_slots.copy_(window_slots.flip(1))


def columns_beyond_the_window_left_alone(
    token_to_request: Tensor,
    position_ids: Tensor,
    block_table: Tensor,
    row_index: Tensor,
    block_size: int,
    window: int,
    window_slots: Tensor,
    window_lens: Tensor,
) -> None:
    before = window_slots.clone()
    right(
        token_to_request,
        position_ids,
        block_table,
        row_index,
        block_size,
        window,
        window_slots,
        window_lens,
    )
    if window:
        window_slots[:, window:].copy_(before[:, window:])


@pytest.mark.parametrize(
    ("wrong", "check"),
    [(newest_first, "agrees"), (columns_beyond_the_window_left_alone, "writes_everything")],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str) -> None:
    verdict = cumae.check(wrong, "window_slots", domain=TORCH, examples=30, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "window_key"


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    owners = torch.tensor([0, 1, -1], dtype=torch.int32, device=DEVICE)
    return {
        "token_to_request": owners,
        "position_ids": torch.tensor([5, 0, 0], device=DEVICE),
        "block_table": torch.tensor([[7, 3], [5, -1]], dtype=torch.int32, device=DEVICE),
        "row_index": None,
        "block_size": 4,
        "window": 2,
        "window_slots": torch.full((3, 3), 77, dtype=torch.int32, device=DEVICE),
        "window_lens": torch.full_like(owners, 77),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("window", 4, "window_slots.shape = (3, 3)"),
        ("window", -1, "window = -1"),
        ("block_size", 0, "block_size = 0"),
        ("position_ids", torch.zeros(2, dtype=torch.int64), "position_ids."),
        ("block_table", torch.zeros(2, dtype=torch.int32), "block_table"),
        ("window_slots", torch.full((3, 3), 77), "window_slots.dtype = torch.int64"),
        ("window_lens", torch.full((4,), 77, dtype=torch.int32), "window_lens.shape = (4,)"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_window_slots(**good)
    assert good["window_slots"].tolist() == [[12, 13, -1], [20, -1, -1], [-1, -1, -1]]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_window_slots(**bad)
    assert all((bad[name] == 77).all() for name in ("window_slots", "window_lens"))


def test_no_limit_is_as_wide_as_the_row() -> None:
    free = arguments() | {"window": 0}
    write_window_slots(**free)
    assert free["window_slots"].tolist()[0] == [31, 12, 13]
    assert free["window_lens"].tolist() == [3, 1, 0]
