"""Slots from free pages: worked by hand, functions that are wrong about them, refused arguments."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.drafts import allocate_slots as right
from cumae.fixtures.edge_cases.definition import case, decode, prefill
from cumae.gpu_impl import write_allocate_slots
from cumae.oracle import UNTOUCHED, Inputs, allocate_slots, slot_mapping
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False)
Tensor = torch.Tensor


class TestAllocateSlots:
    def test_the_last_page_is_filled_before_a_page_is_taken(self) -> None:
        found = allocate_slots([29], [2], [5], 1, [3, 8], 4, 3)
        assert (found.out_cache_loc, found.num_pages) == ([30, 31, 12], [1])

    def test_pages_are_counted_by_the_lengths_before_and_after(self) -> None:
        for before in range(9):
            for after in range(before, 13):
                found = allocate_slots([40 + (before - 1) % 4], [before], [after], 1, range(5), 4, after)
                assert found.num_pages == [-(-after // 4) + -before // 4]

    def test_the_last_slot_is_not_read_where_the_prefix_ends_with_a_page(self) -> None:
        assert allocate_slots([-1], [4], [5], 1, [3], 4, 1).out_cache_loc == [12]

    def test_rows_behind_the_last_token_are_untouched(self) -> None:
        assert allocate_slots([-1, 9], [0, 2], [1, 7], 1, [3], 4, 2).out_cache_loc == [12, UNTOUCHED]

    def test_too_few_pages_are_refused(self) -> None:
        with pytest.raises(ValueError, match=re.escape("free_pages: number = 1, must be enough")):
            allocate_slots([-1], [0], [5], 1, [3], 4, 5)

    def test_lengths_that_fall_are_refused(self) -> None:
        with pytest.raises(ValueError, match=re.escape("seq_lens[0] = 2, must be >= 3")):
            allocate_slots([30], [3], [2], 1, [], 4, 0)

    def test_a_last_slot_elsewhere_in_its_page_is_refused(self) -> None:
        with pytest.raises(ValueError, match=re.escape("last_loc[0] = 28, must be the slot of position 1")):
            allocate_slots([28], [2], [3], 1, [], 4, 1)

    def test_slots_are_those_of_the_blocks(self) -> None:
        for drawn in islice(seeded_cases(5, TORCH, frozenset()), 200):
            inputs, count = Inputs(drawn), drawn.batch.num_tokens
            found = inputs.call(allocate_slots).out_cache_loc[:count]
            assert found == inputs.call(slot_mapping).slot_mapping[:count]


class TestFreePages:
    def test_taken_pages_come_first_and_held_ones_are_not_free(self) -> None:
        step = case(decode(3, 3, 7, 2, 6), prefill(0, 5, 8, 1), num_spare_blocks=2)
        assert Inputs(step)["free_pages"] == [2, 8, 1, 10, 9]

    def test_the_last_slot_of_a_prefix_is_known_at_the_end_of_a_page_too(self) -> None:
        assert Inputs(case(decode(4, 1, 7, 2), prefill(0, 1, 5)))["last_loc"] == [31, -1]


def pages_from_the_front_for_all(
    last_loc: Tensor,
    prefix_lens: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    free_pages: Tensor,
    page_size: int,
    out_cache_loc: Tensor,
    num_pages: Tensor,
) -> None:
    row = 0
    num_pages.zero_()
    for b in range(num_requests):
        new = int(seq_lens[b] - prefix_lens[b])
        rows, taken = out_cache_loc[row : row + new], num_pages[b : b + 1]
        whose = slice(b, b + 1)
        lens = (last_loc[whose], prefix_lens[whose], seq_lens[whose])
        right(*lens, 1, free_pages, page_size, rows, taken)
        row += new


def padding_without_a_slot(
    last_loc: Tensor,
    prefix_lens: Tensor,
    seq_lens: Tensor,
    num_requests: int,
    free_pages: Tensor,
    page_size: int,
    out_cache_loc: Tensor,
    num_pages: Tensor,
) -> None:
    outputs = (out_cache_loc, num_pages)
    right(last_loc, prefix_lens, seq_lens, num_requests, free_pages, page_size, *outputs)
    out_cache_loc[int((seq_lens - prefix_lens)[:num_requests].sum()) :] = -1


def page_behind_the_last_one(
    prefix_lens: Tensor, seq_lens: Tensor, num_requests: int, page_size: int, num_pages: Tensor
) -> None:
    before, after = prefix_lens[:num_requests], seq_lens[:num_requests]
    num_pages.zero_()
    num_pages[:num_requests] = after // page_size - before // page_size


@pytest.mark.parametrize(
    ("wrong", "check", "axis"),
    [
        (pages_from_the_front_for_all, "agrees", "slot"),
        (padding_without_a_slot, "writes_everything", "slot"),
        (page_behind_the_last_one, "agrees", "request"),
    ],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str, axis: str) -> None:
    verdict = cumae.check(wrong, "allocate_slots", domain=TORCH, examples=60, save_to=None)
    assert verdict.failure is not None
    assert (verdict.failure.finding.check, verdict.failure.finding.axis) == (check, axis)


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    lens = torch.tensor([3, 0, 5], dtype=torch.int32, device=DEVICE)
    return {
        "last_loc": torch.tensor([38, -1, 7], device=DEVICE),
        "prefix_lens": lens,
        "seq_lens": lens + 2,
        "num_requests": 2,
        "free_pages": torch.tensor([2, 5], device=DEVICE),
        "page_size": 4,
        "out_cache_loc": torch.full((5,), 77, device=DEVICE),
        "num_pages": torch.full_like(lens, 77),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("page_size", 0, "page_size = 0"),
        ("last_loc", torch.ones(3), "last_loc."),
        ("prefix_lens", torch.ones(2, dtype=torch.int32), "prefix_lens.shape = (2,)"),
        ("free_pages", torch.ones(2), "free_pages."),
        ("out_cache_loc", torch.ones(5, dtype=torch.int32), "out_cache_loc.dtype = torch.int32"),
        ("num_pages", torch.ones(3, dtype=torch.int64), "num_pages.dtype = torch.int64"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_allocate_slots(**good)
    assert good["out_cache_loc"].tolist() == [39, 8, 20, 21, 77]
    assert good["num_pages"].tolist() == [1, 1, 0]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_allocate_slots(**bad)
    assert all((bad[name] == 77).all() for name in ("out_cache_loc", "num_pages") if name != field)
