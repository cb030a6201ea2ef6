"""Torch's writes to indices that occur twice leave another value where their order is turned round."""

from collections.abc import Callable

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import Trial
from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("writes of a GPU come in an order of its own", allow_module_level=True)

AT, VALUES = torch.tensor([1, 3, 1, 0]), torch.tensor([10, 20, 30, 40])
CASE = Case(Batch((Request(0, 0), Request(1, 3, (1,))), 16))
Write = Callable[[], torch.Tensor]


def by_index() -> torch.Tensor:
    own = torch.zeros(4, dtype=torch.int64)
    own[AT] = VALUES
    return own


def by_columns() -> torch.Tensor:
    own = torch.zeros(2, 4, dtype=torch.int64)
    own[:, AT] = VALUES
    return own[1]


def by_rows() -> torch.Tensor:
    own = torch.zeros(4, 3, dtype=torch.int64)
    own[AT] = VALUES[:, None]
    return own[:, 2]


def by_two_indices() -> torch.Tensor:
    own = torch.zeros(3, 4, dtype=torch.int64)
    own[torch.tensor([[2], [1]]), AT] = VALUES
    return own[1]


def by_scatter() -> torch.Tensor:
    return torch.zeros(4, dtype=torch.int64).scatter_(0, AT, torch.cat([VALUES, VALUES]))


def by_copy() -> torch.Tensor:
    return torch.zeros(2, 4, dtype=torch.int64).index_copy(1, AT, VALUES.expand(2, 4))[0]


def turned(write: Write, *, turns_round: bool) -> tuple[list[int], bool]:
    with FencedAllocations(0xA5, turns_round=turns_round) as mode:
        found = write()
    return found.tolist(), mode.turned


@pytest.mark.parametrize("write", [by_index, by_columns, by_rows, by_two_indices, by_scatter, by_copy])
def test_the_first_of_two_values_stays_in_place_of_the_last(write: Write) -> None:
    assert turned(write, turns_round=False) == ([40, 30, 0, 20], False)
    assert turned(write, turns_round=True) == ([40, 10, 0, 20], True)


def test_one_value_sums_and_masks_have_no_order() -> None:
    def write() -> torch.Tensor:
        own = torch.zeros(4, dtype=torch.int64)
        own[AT] = 1
        own.index_put_((AT,), VALUES, accumulate=True)
        own[own == 41] = VALUES[:1]
        own[own >= 10] = torch.tensor([5, 6, 7])
        own.scatter_(0, AT, 7)
        return own

    assert turned(write, turns_round=True) == turned(write, turns_round=False) == ([7, 7, 0, 7], False)


def positions(*, skips_empty: bool) -> Callable[..., torch.Tensor]:
    def write(context_lens: torch.Tensor, query_lens: torch.Tensor, num_tokens_padded: int) -> torch.Tensor:
        start = query_lens.cumsum(0) - query_lens
        live = (query_lens > 0).nonzero()[:, 0] if skips_empty else torch.arange(len(query_lens))
        own = torch.zeros(num_tokens_padded + 1, dtype=torch.int64)
        own[start[live].long()] = live
        own = own[:-1].cummax(0).values
        answer = context_lens[own].long() + torch.arange(num_tokens_padded) - start[own]
        return torch.where(torch.arange(num_tokens_padded) < query_lens.sum(), answer, 0)

    return write


def test_requests_that_begin_at_one_token_are_told() -> None:
    found = is_deterministic(Trial(binding_of(positions(skips_empty=False), "position_ids"), CASE, "cpu"))
    assert found is not None and "when writes to one index came in another order" in found.message


def test_requests_with_tokens_begin_apart() -> None:
    assert (
        is_deterministic(Trial(binding_of(positions(skips_empty=True), "position_ids"), CASE, "cpu")) is None
    )
