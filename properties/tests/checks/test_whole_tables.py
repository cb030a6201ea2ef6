"""Functions that read a table whole, or take long on many requests, are not given one of gigabytes."""

import time
from math import inf
from typing import Any

import pytest
import torch

from cumae import Domain
from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.tests.checks.test_large_tables import BATCHES, kernel, trial

DEVICE = prepare("auto")


def copying(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    slot_mapping.fill_(-1)
    live = torch.nonzero(token_to_request >= 0).flatten()
    position = position_ids[live].long()
    blocks = block_table.long()[token_to_request[live].long(), position // block_size]
    slot_mapping[live] = torch.where(blocks >= 0, blocks * block_size + position % block_size, -1)


def listing(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    slot_mapping.fill_(-1)
    table, position = block_table.tolist(), position_ids.tolist()
    for i, b in enumerate(token_to_request.tolist()):
        block = table[b][position[i] // block_size] if b >= 0 else -1
        slot_mapping[i] = block * block_size + position[i] % block_size if block >= 0 else -1


def hashing(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    hash(block_table.cpu().numpy().tobytes())
    kernel(wide=True, by_row=False)(token_to_request, position_ids, block_table, block_size, slot_mapping)


@pytest.mark.parametrize("function", [copying, listing, hashing])
def test_a_function_that_reads_tables_whole_is_not_given_one_of_gigabytes(function: Any) -> None:
    binding = binding_of(function, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(BATCHES[0]), DEVICE)
    assert CHECKS["survives_large_ids"](asked) is None
    assert asked.note.startswith("not tried with a table of 2^31 entries")
    assert not asked.saw_nothing  # ids beyond 2^31 were tried


def test_a_function_that_reads_what_it_needs_is_given_one() -> None:
    asked = trial(wide=True, by_row=False, strided=False, batch=BATCHES[0])
    assert CHECKS["survives_large_ids"](asked) is None
    assert not asked.note


def test_a_view_of_a_table_is_no_copy() -> None:
    def narrow(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        slot_mapping.fill_(-1)
        live = torch.nonzero(token_to_request >= 0).flatten()
        position = position_ids[live].int()
        place = token_to_request[live].int() * block_table.shape[1] + position // block_size
        blocks = block_table.view(-1)[place.clamp(min=0).long()].long()
        slot_mapping[live] = torch.where(blocks >= 0, blocks * block_size + position % block_size, -1)

    binding = binding_of(narrow, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(BATCHES[0]), DEVICE)
    found = CHECKS["survives_large_ids"](asked)
    assert found is not None and not asked.note
    moved = "at offsets past 2^31, in a table of 1,048,576 columns, behind 2,048 requests without new tokens"
    assert moved in found.message
    assert found.left_out_by == "Domain(far_rows=False)" and "Domain" not in found.message
    assert (found.axis, found.wrong) == ("", ())  # it is not placed in the case that is shown
    short = {"max_context_len": 8_192, "max_query_len": 8_192}
    for promise in ({"far_rows": False}, {"max_requests": 2047}, short):
        small = binding_of(narrow, "slot_mapping", domain=Domain(strided=False, **promise))
        assert CHECKS["survives_large_ids"](Trial(small, Case(BATCHES[0]), DEVICE)) is None


def test_a_wide_table_is_first_tried_on_the_case_itself() -> None:
    """Calls on the thousands of requests of the enlarged case take too long to compare their times."""
    shapes = []

    def seen(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
             block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
        shapes.append(tuple(block_table.shape))
        copying(token_to_request, position_ids, block_table, block_size, slot_mapping)

    domain = Domain(strided=False, empty_requests=False)
    case = Case(Batch((Request(1, 1, (3,)),), 4))
    CHECKS["survives_large_ids"](Trial(binding_of(seen, "slot_mapping", domain=domain), case, DEVICE))
    assert (1, 2**22) in shapes


@pytest.mark.parametrize("seconds", [1.0, inf])
def test_a_function_that_is_slow_on_many_requests_is_not_called_on_them(seconds: float) -> None:
    def slow(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
             block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
        time.sleep(0.001 * len(block_table))
        slot_mapping.fill_(-1)
        for token in torch.nonzero(token_to_request >= 0).flatten().tolist():
            position, request = int(position_ids[token]), int(token_to_request[token])
            block = int(block_table[request, position // block_size])
            slot_mapping[token] = block * block_size + position % block_size if block >= 0 else -1

    binding = binding_of(slow, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(Batch((Request(1, 1, (3,)),), 4)), DEVICE, seconds_left=lambda: seconds)
    assert CHECKS["survives_large_ids"](asked) is None
    assert asked.note.startswith("not tried behind 2,048 requests") == (seconds == 1.0), asked.note
