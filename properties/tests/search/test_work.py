"""The work of cases: what is listed and what pages hold counts; what is too much is not built."""

from types import SimpleNamespace
from typing import cast

import pytest

from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.volume import Volume
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.visitor import Visitor
from cumae.properties.search.work import ENTRY, KEY, NUMBER, REQUEST
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.sized import TooLargeError

TOKENS, TOPK = 64, 2_048


def visitor_of(target: str, operation: str, dialect: str = "cumae", work: float = 1.0) -> Visitor:
    """Return a visitor that counts the work of a function's cases, and examines none."""
    examiner = SimpleNamespace(
        binding=binding_of(load_function(target), operation, dialect),
        checks=("agrees",),
        clock=0.0,
        pace=SimpleNamespace(budget=Budget(seconds=60), is_late=lambda: False),
        device="cuda",
    )
    return Visitor(cast(Examiner, examiner), Volume(), work)


@pytest.mark.parametrize(
    ("target", "operation", "dialect", "lists"),
    [
        ("cumae.gpu_impl:write_topk_to_slots", "topk_to_slots", "cumae", True),
        ("cumae.gpu_impl:write_compact_topk_slots", "compact_topk_slots", "cumae", True),
        ("cumae.gpu_impl:PersistentBuffers", "persistent_buffers", "cumae", True),
        ("cumae.fixtures.correct.sglang:topk_to_slots", "topk_to_slots", "sglang", True),
        ("cumae.gpu_impl:write_sparse_schedule", "sparse_schedule", "cumae", False),
    ],
)
def test_selected_keys_count_where_they_are_listed(
    target: str, operation: str, dialect: str, lists: bool
) -> None:
    visitor = visitor_of(target, operation, dialect)
    few, many = (
        visitor._work(Case(Batch((Request(0, TOKENS, (3,)),), 64), options=Options.of(topk=topk)))
        for topk in (1, TOPK)
    )
    assert (many - few > 0.9 * TOKENS * TOPK * ENTRY) is lists


@pytest.mark.parametrize(
    ("target", "operation"), [("read_pages", "page_read"), ("write_pages", "page_write")]
)
def test_the_numbers_of_keys_and_values_count(target: str, operation: str) -> None:
    visitor = visitor_of(f"cumae.gpu_impl:{target}", operation)
    batch, dims = Batch((Request(TOKENS, 0, (3,)),), 64), {"head_dim": 16, "value_dim": 48}
    one, eight = (visitor._work(Case(batch, options=Options.of(num_heads=heads, **dims))) for heads in (1, 8))
    assert eight - one == pytest.approx(TOKENS * 7 * (16 + 48) * NUMBER)


def test_a_step_that_is_too_much_is_not_built_and_a_smaller_one_is_looked_for() -> None:
    visitor = visitor_of("cumae.gpu_impl:write_slot_mapping", "slot_mapping", work=100 * KEY + 0.01)
    built: list[int] = []

    def build(size: int) -> Case | None:
        if not visitor.admits(1, 1, size):
            raise TooLargeError
        built.append(size)
        return None

    assert visitor.first("any", build, (100_000, 50_000, 30)) == 30
    assert built == [30]
    assert visitor.first("any", build, (100_000, 50_000)) == 0


def test_a_ladder_builds_what_the_work_that_is_left_admits_and_anything_outside_of_a_choice() -> None:
    visitor = visitor_of("cumae.gpu_impl:write_slot_mapping", "slot_mapping", work=100 * REQUEST + 0.01)
    binding, built = visitor.examiner.binding, list[int]()
    ladder = Ladder(binding.domain, binding.features, visitor.admits)

    def build(size: int) -> Case | None:
        if ladder.many(size) is not None:
            built.append(size)
        return None

    assert visitor.first("many", build, (10_000, 5_000, 30)) == 30
    assert built == [30]
    assert ladder.many(1_000)
