"""Lists of pages: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.pages import kv_indices as right
from cumae.gpu_impl import write_kv_indices
from cumae.oracle import UNTOUCHED, Batch, Case, KvIndices, Layout, Options, Request, kv_indices
from cumae.properties.cases.domain import Domain
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.places import Seen
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False)
TABLE = [[7, 3, 5, 8], [2, 6, 1, 4]]
Tensor = torch.Tensor


def of_one(seq_len: int, window: int = 0) -> KvIndices:
    found = kv_indices(TABLE, [0], [seq_len], 1, 4, 4, window)
    return found._replace(kv_indices=[page for page in found.kv_indices if page is not UNTOUCHED])


class TestKvIndices:
    def test_the_last_page_holds_one_token_to_a_page_of_them(self) -> None:
        assert [of_one(length).kv_last_page_len for length in (0, 1, 4, 5, 8)] == [[0], [1], [4], [1], [4]]

    def test_a_window_may_begin_and_end_inside_a_page(self) -> None:
        assert of_one(9, window=6).kv_indices == [7, 3, 5]
        assert of_one(9, window=5).kv_indices == [3, 5]

    def test_a_window_does_not_change_the_last_page(self) -> None:
        assert of_one(7, window=1) == KvIndices([0, 1], [3], [3])

    def test_entries_behind_the_last_page_keep_their_values(self) -> None:
        assert kv_indices(TABLE, [1], [5], 1, 4, 3).kv_indices == [2, 6, UNTOUCHED]

    def test_a_request_without_a_row_has_missing_pages(self) -> None:
        assert kv_indices(TABLE, [-1], [5], 1, 4, 2) == KvIndices([0, 2], [-1, -1], [1])

    def test_padded_requests_have_no_page_whatever_their_length(self) -> None:
        assert kv_indices(TABLE, [0, 9], [4, 99], 1, 4, 1) == KvIndices([0, 1, 1], [7], [4, 0])

    def test_a_list_without_room_is_refused(self) -> None:
        with pytest.raises(ValueError, match="num_page_indices = 1, must be >= 2"):
            kv_indices(TABLE, [0], [5], 1, 4, 1)


class TestPlaces:
    CASE = Case(
        Batch((Request(9, 1, (7, 3, 5), "decode"), Request(0, 3, (2,))), 4), Layout(), Options.of(window=4)
    )

    def test_a_page_is_told_by_its_request_positions_and_block(self) -> None:
        placing = axis_named(OPERATIONS["kv_indices"].outputs[1].axis).placing
        assert [placing.text(self.CASE, index, Seen()) for index in (0, 2, 3)] == [
            "entry 0: request 0, column 1, positions 4-7, block 3",
            "entry 2: request 1, column 0, positions 0-2, block 2",
            "entry 3: behind the last page",
        ]


def full_page_without_a_token(
    block_table: Tensor,
    row_index: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    block_size: int,
    window: int,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
) -> None:
    sizes = (num_requests, block_size, window)
    right(block_table, row_index, seq_lens, *sizes, kv_indptr, kv_indices, kv_last_page_len)
    kv_last_page_len.copy_((seq_lens - 1) % block_size + 1)


def first_pages_of_a_window(
    block_table: Tensor,
    row_index: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    block_size: int,
    window: int,
    kv_indptr: Tensor,
    kv_indices: Tensor,
) -> None:
    lens = seq_lens.clamp(max=window) if window else seq_lens
    sizes = (num_requests, block_size, 0)
    right(block_table, row_index, lens, *sizes, kv_indptr, kv_indices, torch.empty_like(kv_indptr[1:]))


def tail_cleared(
    block_table: Tensor,
    row_index: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    block_size: int,
    window: int,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
) -> None:
    kv_indices.zero_()
    sizes = (num_requests, block_size, window)
    right(block_table, row_index, seq_lens, *sizes, kv_indptr, kv_indices, kv_last_page_len)


@pytest.mark.parametrize(
    ("wrong", "check", "axis"),
    [
        (full_page_without_a_token, "agrees", "request"),
        (first_pages_of_a_window, "agrees", "listed_page"),
        (tail_cleared, "writes_everything", "listed_page"),
    ],
)
def test_a_wrong_one_is_found(wrong: Callable[..., Any], check: str, axis: str) -> None:
    verdict = cumae.check(wrong, "kv_indices", domain=TORCH, examples=12, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == axis


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    lens = torch.tensor([9, 3, 99], dtype=torch.int32, device=DEVICE)
    table = torch.tensor(TABLE, dtype=torch.int32, device=DEVICE)
    rows = {"row_index": torch.tensor([1, 0, 9], device=DEVICE), "seq_lens": lens}
    sizes = {"num_requests": 2, "block_size": 4, "window": 0}
    outputs = {"kv_indptr": 4, "kv_indices": 5, "kv_last_page_len": 3}
    held = {name: torch.full((n,), 77, dtype=torch.int32, device=DEVICE) for name, n in outputs.items()}
    return {"block_table": table, **rows, **sizes, **held}


def test_the_launcher_takes_requests_in_the_tables_order() -> None:
    given = arguments() | {"row_index": None, "window": 4}
    write_kv_indices(**given)
    assert given["kv_indptr"].tolist() == [0, 2, 3, 3]
    assert given["kv_indices"].tolist() == [3, 5, 2, 77, 77]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("block_size", 0, "block_size = 0"),
        ("window", -1, "window = -1"),
        ("block_table", torch.ones(3, dtype=torch.int32), "block_table.shape = (3,)"),
        ("row_index", torch.ones(2, dtype=torch.int32), "row_index.shape = (2,)"),
        ("seq_lens", torch.ones(3), "seq_lens."),
        ("kv_indptr", torch.ones(3, dtype=torch.int32), "kv_indptr.shape = (3,)"),
        ("kv_indices", torch.ones(5, dtype=torch.int64), "kv_indices.dtype = torch.int64"),
        ("kv_last_page_len", torch.ones(6, dtype=torch.int32)[::2], "kv_last_page_len.stride()"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_kv_indices(**good)
    assert good["kv_indices"].tolist() == [2, 6, 1, 7, 77]
    assert [good[name].tolist() for name in ("kv_indptr", "kv_last_page_len")] == [[0, 3, 4, 4], [1, 3, 0]]
    # A copy to a GPU would be dense.
    is_strided = isinstance(value, torch.Tensor) and not value.is_contiguous()
    moved = value.repeat_interleave(2).to(DEVICE)[::2] if is_strided else value
    bad = arguments() | {field: moved.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_kv_indices(**bad)
    outputs = {"kv_indptr", "kv_indices", "kv_last_page_len"} - {field}
    assert all((bad[name] == 77).all() for name in outputs)
