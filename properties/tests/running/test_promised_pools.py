"""Under a promised largest block id, ids are raised that far."""

from collections.abc import Callable
from typing import Any

import pytest

from cumae.fixtures.correct.page_rows import page_write
from cumae.fixtures.correct.vllm import slot_mapping
from cumae.fixtures.limits import sizes_of_slots
from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import DialectName
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.running.variants import enlarged_cases
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
CASE = Case(Batch((Request(1, 1, (3,), "decode"),), 256))


def ids(
    domain: Domain,
    function: Callable[..., Any] = slot_mapping,
    operation: str = "slot_mapping",
    dialect: DialectName = "vllm",
) -> set[tuple[int, ...]]:
    """Return the ids of the moved cases that the domain allows."""
    binding = binding_of(function, operation, dialect=dialect, domain=domain)
    moved = [large for large in enlarged_cases(binding, CASE) if domain.why_not(large) is None]
    return {large.batch.requests[-1].block_ids for large in moved} - {(3,)}


def test_ids_are_raised_to_the_promised_one() -> None:
    assert ids(Domain(max_block_id=65_535)) == {(65_535,)}


def test_ids_at_the_promise_are_not_raised() -> None:
    assert ids(Domain(max_block_id=3)) == set()


def test_a_larger_pool_is_reached_up_to_its_first_2_26_slots() -> None:
    assert ids(Domain(max_block_id=2**22)) == {(2**26 // 256 - 1,)}


def test_ids_that_no_promise_bounds_pass_2_31() -> None:
    assert min(block * 256 for (block,) in ids(Domain())) >= 2**31


def test_ids_of_caches_are_not_raised() -> None:
    assert ids(Domain(max_block_id=100), page_write, "page_write", "cumae") == set()


@pytest.mark.parametrize("promised", [65_535, 2**20])
def test_slots_rounded_to_fp32_are_found(promised: int) -> None:
    domain = Domain(captured=False, max_block_id=promised)
    binding = binding_of(sizes_of_slots.slots_in_float32, "slot_mapping", domain=domain)
    verdict = search(binding, DEVICE, Budget(examples=200), checks=["survives_large_ids"], reduce=False)
    assert verdict.failure is not None
    assert "is added to every block id" in verdict.failure.finding.message
