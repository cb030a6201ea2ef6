"""Programs in turns: wrong orders are found, saved and replayed; right kernels are never accused."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cumae.fixtures.limits import LIMITS, orders_of_rows
from cumae.fixtures.limits.limit import step
from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.search.findings import finding_of
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import right_orders, wrong_orders
from cumae.properties.tests.helpers.command_line import cumae

if prepare("auto") == "cuda":
    pytest.skip("programs take turns only in the interpreter", allow_module_level=True)
CHECK = "holds_in_any_order"
ORDERLY = ("agrees", "writes_everything", "stays_in_bounds", "is_deterministic", CHECK)
CASE = Case(Batch((Request(3, 8, (4, 1, 0), "prefill"), Request(5, 8, (7, 2, 3, 9), "prefill")), 4))
SELECTED = step((9, 3), (0, 4), (6, 2), topk=8)
UNCAPTURED = Domain(captured=False)
Function = Callable[..., Any]


def named(functions: tuple[Function, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("function", functions, ids=lambda function: function.__name__)


def findings(function: Function, operation: str, case: Case) -> dict[str, Finding]:
    """Return the findings of the checks that order concerns."""
    trial = Trial(binding_of(function, operation), case, "cpu")
    return {name: found for name in ORDERLY if (found := finding_of(name, trial)) is not None}


@named(wrong_orders.WRONG)
def test_an_order_that_goes_wrong_is_found_by_this_check_only(function: Function) -> None:
    found = findings(function, "position_ids", CASE)
    assert set(found) == {CHECK}
    assert found[CHECK].schedule
    assert "goes on at wrong_orders.py:" in found[CHECK].message


@named(right_orders.RIGHT)
def test_a_right_kernel_is_not_accused_in_any_order(function: Function) -> None:
    assert findings(function, "position_ids", CASE) == {}
    binding = binding_of(function, "position_ids")
    verdict = search(binding, "cpu", Budget(examples=0), checks=checks_for(binding), first=[CASE])
    assert verdict.ok, verdict


def test_slots_that_are_appended_in_any_order_are_not_accused() -> None:
    assert findings(right_orders.appends_in_any_order, "compact_topk_slots", SELECTED) == {}


@pytest.mark.parametrize(
    ("where", "case"),
    [
        ("orders_of_rows:read_then_added", step((100, 3), (60, 4), topk=100)),
        ("orders_of_rows:done_before_the_store", step(*[(20, 1)] * 10)),
        ("orders_of_sums:loaded_without_a_barrier", step(*[(5, 2)] * 40, world=2, rank=1)),
    ],
)
def test_the_limits_that_no_sequential_run_shows_are_found(where: str, case: Case) -> None:
    (limit,) = (limit for limit in LIMITS if limit.where == where)
    assert set(findings(load_function(limit.target), limit.operation, case)) == {CHECK}


def test_a_race_is_told_by_another_check() -> None:
    found = findings(orders_of_rows.longest_without_atomics, "sequence_layout", step(*[(3, 2)] * 20))
    assert set(found) == {"is_deterministic"}


def test_programs_that_wait_for_ever_in_any_order_do_not_agree() -> None:
    found = finding_of(
        "agrees", Trial(binding_of(wrong_orders.waits_for_nobody, "position_ids"), CASE, "cpu")
    )
    assert found is not None
    assert found.message.startswith("the kernel waits for ever: program 0 at wrong_orders.py:")
    assert found.rule == "a launch must end"


def test_nothing_is_run_again_if_programs_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the launch was run again")

    monkeypatch.setattr(Trial, "in_turns", refuse)
    monkeypatch.setattr(Trial, "with_threads", refuse)
    binding = binding_of(wrong_orders.copies, "position_ids")
    assert CHECKS[CHECK](Trial(binding, CASE, "cpu")) is None
    with pytest.raises(AssertionError, match="the launch was run again"):
        CHECKS[CHECK](Trial(binding_of(right_orders.takes_tickets, "position_ids"), CASE, "cpu"))


def test_it_runs_in_the_interpreter_only() -> None:
    binding = binding_of(wrong_orders.copies, "position_ids")
    assert CHECK in checks_for(binding, "cpu")
    assert CHECK not in checks_for(binding, "cuda")


def test_a_saved_schedule_is_replayed_turn_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "cumae.properties.tests.functions.wrong_orders:adds_in_two_steps"
    monkeypatch.setattr(wrong_orders.adds_in_two_steps, "__module__", wrong_orders.__name__)
    monkeypatch.setattr(wrong_orders.adds_in_two_steps, "__qualname__", "adds_in_two_steps")
    verdict = check(
        wrong_orders.adds_in_two_steps, "position_ids", domain=UNCAPTURED, examples=8, save_to=tmp_path
    )
    assert verdict.target == target and verdict.failure is not None and verdict.failure.file is not None
    file, finding = verdict.failure.file, verdict.failure.finding
    assert finding.check == CHECK and load_failure(file).finding.schedule == finding.schedule
    monkeypatch.setattr(sys.modules[CHECKS[CHECK].__module__], "MOST_ORDERS", 0)
    told = cumae("replay", str(file), "--no-isolate", cwd=tmp_path)
    assert told.returncode == 1, told.stdout + told.stderr
    assert finding.message in told.stdout
    forgetful = Trial(
        binding_of(wrong_orders.adds_in_two_steps, "position_ids"), load_failure(file).case, "cpu"
    )
    assert CHECKS[CHECK](forgetful) is None
