"""The lanes of an atomic come from the last to the first where programs come in another order."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import Trial
from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.interpreter.hooks import watching
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

CASE = Case(Batch((Request(0, 4, (1,)),), 16))


@triton.jit
def _tickets(count: Any, out: Any, live: Any, BLOCK: tl.constexpr) -> None:
    o_all = tl.arange(0, BLOCK)
    tl.store(out + o_all, tl.atomic_add(count + o_all * 0, o_all + 1, mask=o_all < live))


@triton.jit
def _positions(count: Any, out: Any, live: Any, by_ticket: tl.constexpr, BLOCK: tl.constexpr) -> None:
    o_all = tl.arange(0, BLOCK)
    ticket = tl.atomic_add(count + o_all * 0, 1, mask=o_all < live)
    place = ticket if by_ticket else o_all
    tl.store(out + place, o_all.to(tl.int64), mask=o_all < live)


def positions(by_ticket: bool) -> Any:
    def write(query_lens: torch.Tensor, num_tokens_padded: int) -> torch.Tensor:
        out = torch.zeros(num_tokens_padded, dtype=torch.int64, device=query_lens.device)
        count = torch.zeros(1, dtype=torch.int32, device=query_lens.device)
        if num_tokens_padded:
            _positions[(1,)](count, out, int(query_lens.sum()), by_ticket, 16)
        return out

    return write


@pytest.mark.parametrize(("order_seed", "expected"), [(None, [0, 1, 3, 6]), (1, [9, 7, 4, 0])])
def test_each_lane_gets_what_those_before_it_have_added(order_seed: int | None, expected: list[int]) -> None:
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    with watching(order_seed) as watch:
        _tickets[(1,)](count, out, 4, BLOCK=8)
    assert (out.tolist()[:4], int(count)) == (expected, 10)
    assert watch.lanes_reordered is (order_seed is not None)


def test_places_by_the_order_of_lanes_are_told() -> None:
    found = is_deterministic(Trial(binding_of(positions(True), "position_ids"), CASE, "cpu"))
    assert found is not None and "when lanes of an atomic came in another order" in found.message


def test_a_count_alone_has_no_order() -> None:
    assert is_deterministic(Trial(binding_of(positions(False), "position_ids"), CASE, "cpu")) is None
