"""Page tables: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.pages import page_table as right
from cumae.gpu_impl import write_page_table
from cumae.oracle import Batch, Case, Layout, Request, page_table
from cumae.properties.cases.domain import Domain
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.places import Seen
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TABLE = [[7, 3, 5, 8], [2, 6, 1, 4]]
Tensor = torch.Tensor


def row_of(seq_len: int, window: int = 0, context_len: int = 0, columns: int = 4) -> list[int]:
    return page_table(TABLE, [0], [context_len], [seq_len], 1, 4, columns, window).page_table


class TestPageTable:
    def test_a_page_is_there_as_soon_as_its_first_token_is(self) -> None:
        assert [row_of(length) for length in (0, 1, 4, 5)] == [
            [0, 0, 0, 0],
            [7, 0, 0, 0],
            [7, 0, 0, 0],
            [7, 3, 0, 0],
        ]

    def test_a_window_counts_the_token_itself(self) -> None:
        assert row_of(8, window=4, context_len=7) == [0, 3, 0, 0]
        assert row_of(8, window=5, context_len=7) == [7, 3, 0, 0]

    def test_a_window_is_that_of_the_first_new_token(self) -> None:
        assert row_of(16, window=2, context_len=5) == [0, 3, 5, 8]

    def test_columns_behind_the_last_one_are_dropped(self) -> None:
        assert row_of(16, columns=2) == [7, 3]

    def test_columns_past_the_table_hold_zero(self) -> None:
        assert row_of(20, columns=5) == [7, 3, 5, 8, 0]

    def test_every_negative_entry_is_minus_one(self) -> None:
        assert page_table([[-7, 0]], [0], [0], [5], 1, 4, 2).page_table == [-1, 0]

    def test_rows_of_padding_are_not_looked_up(self) -> None:
        assert page_table(TABLE, [1, 99], [0, 0], [3, 3], 1, 4, 1).page_table == [2, 0]

    def test_more_live_requests_than_lengths_are_refused(self) -> None:
        with pytest.raises(ValueError, match="num_requests = 2, must be <= 1"):
            page_table(TABLE, [0], [0], [5], 2, 4, 1)

    def test_an_entry_stands_for_at_least_one_token(self) -> None:
        with pytest.raises(ValueError, match="tokens_per_entry = 0, must be >= 1"):
            page_table(TABLE, [0], [0], [5], 1, 0, 1)


class TestPlaces:
    CASE = Case(
        Batch((Request(9, 1, (7, 3, 5), "decode"), Request(0, 3, (2,))), 4),
        Layout(num_padding_requests=1, page_slack=1),
    )

    def text(self, index: int) -> str:
        (found,) = OPERATIONS["page_table"].outputs
        return axis_named(found.axis).placing.text(self.CASE, index, Seen())

    def test_a_column_is_told_by_its_request_positions_and_block(self) -> None:
        assert [self.text(index) for index in (2, 7, 11)] == [
            "entry 2: request 0, column 2, positions 8-9, block 5",
            "entry 7: request 1, column 3, no position",
            "entry 11: padded request 2, column 3",
        ]


def every_block_of_the_row(
    block_table: Tensor,
    row_index: Tensor,
    context_lens: Tensor,
    num_requests: int,
    tokens_per_entry: int,
    num_page_columns: int,
    window: int,
) -> Tensor:
    lens = torch.full_like(context_lens, num_page_columns * tokens_per_entry)
    sizes = (num_requests, tokens_per_entry, num_page_columns, window)
    return right(block_table, row_index, context_lens, lens, *sizes)


def window_of_the_last_token(
    block_table: Tensor,
    row_index: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    tokens_per_entry: int,
    num_page_columns: int,
    window: int,
) -> Tensor:
    last, sizes = (seq_lens - 1).clamp(min=0), (num_requests, tokens_per_entry, num_page_columns, window)
    return right(block_table, row_index, last, seq_lens, *sizes)


def tail_left_alone(
    block_table: Tensor,
    row_index: Tensor,
    context_lens: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    tokens_per_entry: int,
    window: int,
    page_table: Tensor,
) -> None:
    sizes = (num_requests, tokens_per_entry, page_table.shape[1], window)
    found = right(block_table, row_index, context_lens, seq_lens, *sizes)
    page_table.copy_(torch.where(found == 0, page_table, found))


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (every_block_of_the_row, "agrees"),
        (window_of_the_last_token, "agrees"),
        (tail_left_alone, "writes_everything"),
    ],
)
def test_a_wrong_one_is_found(wrong: Callable[..., Any], check: str) -> None:
    domain = Domain(captured=False)
    verdict = cumae.check(wrong, "page_table", domain=domain, examples=12, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "page_column"


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    lens = torch.tensor([9, 3, 99], dtype=torch.int32, device=DEVICE)
    table = torch.tensor(TABLE, dtype=torch.int32, device=DEVICE)
    lengths = {
        "row_index": torch.tensor([1, 0, 9], device=DEVICE),
        "context_lens": lens - 1,
        "seq_lens": lens,
    }
    pages = torch.full((3, 3), 77, dtype=torch.int32, device=DEVICE)
    sizes = {"num_requests": 2, "tokens_per_entry": 4, "window": 2}
    return {"block_table": table, **lengths, **sizes, "page_table": pages}


def test_the_launcher_takes_requests_in_the_tables_order() -> None:
    given = arguments() | {"row_index": None, "window": 0}
    write_page_table(**given)
    assert given["page_table"].tolist() == [[7, 3, 5], [2, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("tokens_per_entry", 0, "tokens_per_entry = 0"),
        ("window", -1, "window = -1"),
        ("block_table", torch.ones(3, dtype=torch.int32), "block_table.shape = (3,)"),
        ("row_index", torch.ones(2, dtype=torch.int32), "row_index.shape = (2,)"),
        ("seq_lens", torch.ones(3), "seq_lens."),
        ("context_lens", torch.ones(2, dtype=torch.int32), ""),
        ("page_table", torch.ones((3, 3), dtype=torch.int64), "page_table.dtype = torch.int64"),
        ("page_table", torch.ones((2, 3), dtype=torch.int32), "page_table.shape = (2, 3)"),
        ("page_table", torch.ones((3, 3), dtype=torch.int32).T[:, ::2], "page_table.stride()"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_page_table(**good)
    assert good["page_table"].tolist() == [[0, 6, 1], [7, 0, 0], [0, 0, 0]]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_page_table(**bad)
    assert field == "page_table" or (bad["page_table"] == 77).all()
