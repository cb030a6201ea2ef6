"""Which checks run on a drawn case, and the cases on which programs that share elements take turns."""

import pytest

from cumae import gpu_impl
from cumae.fixtures.limits.orders_of_rows import read_then_added
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.due import _CALLS, due, most_accesses
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
INTERPRETED = pytest.mark.skipif(DEVICE == "cuda", reason="accesses are counted in the interpreter")


def test_a_costly_check_runs_less_often_and_a_single_one_always() -> None:
    both = ("agrees", "keeps_facts")
    assert [due(both, number) for number in (3, 4, 5, 8)] == [("agrees",), both, ("agrees",), both]
    assert due(("keeps_facts",), 3) == ("keeps_facts",)


def test_the_bound_on_launches_shrinks_with_the_calls_of_a_check_and_with_few_examples() -> None:
    assert most_accesses("agrees", None) == most_accesses("agrees", 10**6) == 30_000
    assert most_accesses("forgets_history", None) == 30_000 / 7
    assert most_accesses("agrees", 100) == 12_500
    assert most_accesses("agrees", 1) == 5_000


@INTERPRETED
@pytest.mark.parametrize(("calls", "runs"), [(1, True), (10**9, False)])
def test_a_costly_check_is_left_out_where_launches_are_large(
    calls: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_CALLS, "keeps_facts", calls)
    ran: list[str] = []
    binding = binding_of(gpu_impl.write_position_ids, "position_ids")
    checks = ("agrees", "keeps_facts")
    verdict = search(
        binding, DEVICE, Budget(examples=12), checks=checks, before=lambda name, _: ran.append(name)
    )
    assert verdict.ok
    assert ("keeps_facts" in ran) == runs


@INTERPRETED
def test_programs_take_turns_on_more_than_one_tile() -> None:
    """Two programs share a counter only where a row has more than 64 keys."""
    binding = binding_of(read_then_added, "compact_topk_slots")
    checks, first = ("agrees", "holds_in_any_order"), fixture_cases(binding)
    verdict = search(binding, DEVICE, Budget(examples=1), checks=checks, first=first, reduce=False)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "holds_in_any_order"
