"""Every check has an implementation that fails it and no other."""

from collections.abc import Callable
from typing import Any

import pytest

from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import wrong_kernels, wrong_orders
from cumae.properties.tests.functions import wrong_on_purpose as wrong

DEVICE = prepare("auto")
ONLY = [
    ("agrees", wrong.one_too_far, "position_ids"),
    ("writes_everything", wrong.padding_left_alone, "position_ids"),
    ("stays_in_bounds", wrong_kernels.reads_one_behind, "position_ids"),
    ("stays_in_bounds", wrong.writes_one_behind, "position_ids"),
    ("stays_in_bounds", wrong.changes_its_input, "position_ids"),
    ("ignores_garbage", wrong.believes_padded_requests, "position_ids"),
    ("is_deterministic", wrong_kernels.last_program_wins, "position_ids"),
    ("accepts_strides", wrong.rows_without_gaps, "slot_mapping"),
    ("survives_large_ids", wrong.products_in_32_bits, "slot_mapping"),
    ("writes_everything", wrong.returns_with_a_hole, "position_ids"),
    ("stays_in_bounds", wrong.writes_behind_what_it_allocates, "position_ids"),
    ("accepts_index_types", wrong.rows_read_as_32_bits, "slot_mapping"),
    ("forgets_history", wrong.answers_by_address, "position_ids"),
]
ONLY_IN_INTERPRETER = [
    ("is_deterministic", wrong_kernels.leaves_its_number),
    ("stays_in_bounds", wrong_kernels.reads_its_output),
    ("agrees", wrong_kernels.asserts_too_much),
    ("holds_in_any_order", wrong_orders.reads_then_takes),
]
ONLY_ON_GPU = [
    ("never_synchronises", wrong.synchronises, "position_ids"),
    ("replays_in_graph", wrong.counts_on_the_host, "position_ids"),
    ("waits_for_arguments", wrong_kernels.stores_without_waiting, "position_ids"),
]
if DEVICE == "cuda":
    ONLY += ONLY_ON_GPU
MIXED = Case(
    Batch((Request(3, 2, (4, 1), "prefill"), Request(5, 1, (7, 2), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1),
)
LONG = Case(
    Batch((Request(3, 19, (4, 1, 0, 3, 8, 6), "prefill"), Request(5, 1, (7, 2), "decode")), 4),
    Layout(num_padding_tokens=2),
)


def failing(function: Callable[..., Any], operation: str, cases: list[Case]) -> set[str]:
    binding = binding_of(function, operation)
    written_for_graphs = function in {wrong_one for _, wrong_one, _ in ONLY_ON_GPU}
    names = checks_for(binding, DEVICE if written_for_graphs else "cpu")
    return {
        name for case in cases for name in names if CHECKS[name](Trial(binding, case, DEVICE)) is not None
    }


def cases_for(function: Callable[..., Any], operation: str, count: int = 25) -> list[Case]:
    binding = binding_of(function, operation)
    drawn = seeded_cases(3, binding.domain, binding.features)
    small = (case for case in drawn if case.num_tokens_padded < 40 and len(case.batch.requests) < 40)
    return [next(small) for _ in range(count)]


@pytest.mark.parametrize(
    ("check", "function", "operation"), ONLY, ids=[function.__name__ for _, function, _ in ONLY]
)
def test_each_defect_fails_one_check_only(check: str, function: Callable[..., Any], operation: str) -> None:
    if check == "is_deterministic" and DEVICE == "cuda":
        pytest.skip("programs run in their own order only in the interpreter")
    if function is wrong_kernels.reads_one_behind and DEVICE == "cuda":
        pytest.skip("reads are watched only in the interpreter")
    assert failing(function, operation, cases_for(function, operation)) == {check}


@pytest.mark.parametrize(("check", "function"), ONLY_IN_INTERPRETER)
def test_what_makes_no_difference_yet_fails_one_check_only(check: str, function: Callable[..., Any]) -> None:
    if DEVICE == "cuda":
        pytest.skip("accesses are watched only in the interpreter")
    assert failing(function, "position_ids", [Case(LONG.batch), LONG]) == {check}


def test_a_fact_is_broken_where_the_case_itself_is_right() -> None:
    assert failing(wrong.dislikes_empty_requests, "position_ids", [Case(MIXED.batch)]) == {"keeps_facts"}


def test_a_wrong_value_is_told_where_a_request_has_no_row() -> None:
    def always_three(token_to_request: Any, row_index: Any, slot_mapping: Any) -> None:
        slot_mapping.fill_(3)

    case = Case(MIXED.batch, Layout(row_index=(-1, 0)))
    finding = CHECKS["agrees"](Trial(binding_of(always_three, "slot_mapping"), case, DEVICE))
    assert finding is not None and finding.index == 0


def test_a_stray_access_is_named_by_tensor_element_and_line() -> None:
    trial = Trial(binding_of(wrong_kernels.reads_one_behind, "position_ids"), MIXED, DEVICE)
    if DEVICE == "cuda":
        pytest.skip("reads are watched only in the interpreter")
    finding = CHECKS["stays_in_bounds"](trial)
    assert finding is not None
    assert finding.message.startswith(
        "load of element 5 of `token_to_request`, which has 5, at wrong_kernels.py:"
    )


def test_the_bounds_guard_looks_at_every_access() -> None:
    """Fails when a newer Triton no longer calls the methods that are guarded."""
    if DEVICE == "cuda":
        pytest.skip("accesses are watched only in the interpreter")
    trial = Trial(binding_of(wrong_kernels.reads_one_behind, "position_ids"), MIXED, DEVICE)
    watch = trial.first.watch
    assert watch is not None
    assert watch.num_accesses == 4
    assert watch.most_programs == 1
