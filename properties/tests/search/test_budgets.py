"""A budget of time holds: dear cases are stopped, larger ones left out, and the verdict says so."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain, slow_line, time_line, time_was_short
from cumae.properties.results.verdict import Verdict
from cumae.properties.running import stopwatch
from cumae.properties.running.device import prepare
from cumae.properties.search import pace
from cumae.properties.search.budget import Budget
from cumae.properties.search.costs import Costs
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.wrong_on_purpose import right_positions
from cumae.properties.tests.helpers.command_line import BROKEN, cumae

DEVICE = prepare("auto")


class Clock:
    """A clock that only the function under test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.calls = 0
        monkeypatch.setattr(pace, "time", self)
        monkeypatch.setattr(stopwatch, "time", self)

    def monotonic(self) -> float:
        return self.now

    def function(self, cost: Callable[[int], float], wrong_from: int = 2**31) -> Callable[..., None]:
        """Return position ids that take so many seconds by requests, wrong from so many requests on."""

        def launch(
            token_to_request: torch.Tensor,
            cu_seqlens_q: torch.Tensor,
            context_lens: torch.Tensor,
            position_ids: torch.Tensor,
        ) -> None:
            self.now += cost(context_lens.numel())
            self.calls += 1
            position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
            if context_lens.numel() >= wrong_from:
                position_ids += 1

        return launch


@pytest.fixture(params=[False, True], ids=["one by one", "together"])
def calls_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as where calls on several cases are made together, and as elsewhere."""
    monkeypatch.setattr(Examiner, "calls_together", request.param)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def steps(*requests: int) -> list[Case]:
    return [Case(Batch(tuple(Request(0, 1, (b,), "prefill") for b in range(count)), 4)) for count in requests]


def run(clock: Clock, function: Callable[..., None], budget: Budget, **more: Any) -> Verdict:
    domain = Domain(captured=False)
    return search(binding_of(function, "position_ids", domain=domain), DEVICE, budget, **more)


def quadratic(requests: int) -> float:
    return 0.03 + 15e-6 * requests**2


def test_a_quadratic_function_is_done_in_its_time_and_large_cases_are_left_out(clock: Clock) -> None:
    function = clock.function(quadratic)
    first = fixture_cases(binding_of(function, "position_ids"))
    verdict = run(clock, function, Budget(seconds=20), first=first)
    assert verdict.ok and verdict.left_out > 0
    assert verdict.seconds < 20 + quadratic(700)
    assert verdict.cases > 30
    assert f"{verdict.left_out} cases left out as too large" in explain(verdict)


def test_a_case_that_eats_the_time_is_stopped_between_checks_and_told(clock: Clock) -> None:
    function = clock.function(lambda requests: 15.0 if requests == 1000 else 0.005)
    verdict = run(clock, function, Budget(examples=4, seconds=60), first=steps(1, 3, 1000, 5))
    assert verdict.ok
    assert verdict.cut >= 1  # the tour visits 1,000 requests again, because the function names them
    seconds, *size = verdict.slowest
    assert (round(seconds), size) == (15, [1000, 1000])
    assert slow_line(verdict).startswith("one case took 15 s: 1,000 requests, 1,000 tokens; ")
    assert "stopped" in slow_line(verdict)
    assert verdict.seconds < 60


def test_a_budget_of_examples_drops_nothing_and_tells_the_cost(clock: Clock) -> None:
    function = clock.function(lambda requests: 15.0 if requests >= 1000 else 0.01)
    verdict = run(clock, function, Budget(examples=0), first=steps(1, 1000))
    assert verdict.comparisons == 2 * len(verdict.checks)
    assert (verdict.cut, verdict.left_out, verdict.not_tried) == (0, 0, 0)
    assert slow_line(verdict).startswith("one case took ")
    assert slow_line(verdict).endswith(" s: 1,000 requests, 1,000 tokens")


@pytest.mark.usefixtures("calls_together")
def test_what_is_slow_throughout_is_checked_whole_until_the_time_is_up(clock: Clock) -> None:
    verdict = run(clock, clock.function(lambda requests: 1.0), Budget(seconds=100), first=steps(1, 2))
    assert verdict.comparisons >= 2 * len(verdict.checks)
    assert (verdict.cut, verdict.left_out) == (0, 0)
    assert 100 <= verdict.seconds <= 103


@pytest.mark.parametrize("check", ["forgets_history", "keeps_facts"])
def test_a_check_without_time_left_stops_between_its_calls(check: str, clock: Clock) -> None:
    function = clock.function(lambda requests: 1.0)
    trial = Trial(binding_of(function, "position_ids"), steps(3)[0], DEVICE, goes_on=lambda: False)
    assert CHECKS[check](trial) is None
    assert clock.calls <= 2 and trial.saw_nothing
    calls, clock.calls = clock.calls, 0
    assert CHECKS[check](Trial(binding_of(function, "position_ids"), steps(3)[0], DEVICE)) is None
    assert clock.calls > calls


@pytest.mark.parametrize(("seconds", "most"), [(20.0, 23.0), (200.0, 221.0)])
def test_a_failure_is_made_smaller_in_the_time_that_is_left(
    seconds: float, most: float, clock: Clock, tmp_path: Path
) -> None:
    function = clock.function(lambda requests: seconds / 40, wrong_from=1)
    first = steps(40)
    late = [steps(0)[0]] * 3
    verdict = run(clock, function, Budget(seconds=seconds), first=[*late, *first], save_to=tmp_path)
    assert verdict.failure is not None
    assert verdict.seconds <= most
    assert verdict.failure.stopped.endswith(" s were up")
    assert f"reduce further: cumae reduce {verdict.failure.file}" in explain(verdict)
    assert verdict.spent["reducing"] > 0


@pytest.mark.usefixtures("calls_together")
def test_time_goes_into_generating_oracle_kernel_checks_and_reducing(clock: Clock) -> None:
    verdict = run(clock, clock.function(lambda requests: 1.0), Budget(examples=3), checks=["agrees"])
    assert verdict.spent["kernel"] == verdict.seconds == clock.calls
    assert list(verdict.spent) == ["generating", "oracle", "kernel", "checks", "reducing"]
    assert time_line(verdict).startswith("generating 0.0 s, oracle 0.0 s, kernel ")


def test_what_a_case_costs_is_foretold_from_smaller_ones() -> None:
    costs = Costs()
    for case in steps(0, 1, 3, 5, 9, 17, 33):
        costs.learn(case, quadratic(len(case.batch.requests)))
    assert costs.foretold(steps(2)[0]) <= quadratic(3)
    large = costs.foretold(steps(2000)[0])
    assert quadratic(2000) / 4 < large < quadratic(2000) * 4


def test_what_costs_little_more_when_larger_is_not_taken_for_dear() -> None:
    costs = Costs()
    for i, case in enumerate(steps(0, 1, 3, 5, 9, 17, 33)):
        costs.learn(case, 0.001 * (1 + 0.1 * (i % 2)))
    assert costs.foretold(steps(500)[0]) < 0.1


def test_much_larger_cases_wait_until_larger_ones_were_run() -> None:
    costs = Costs()
    for case in steps(0, 3, 33):
        costs.learn(case, 0.001 + 0.001 * len(case.batch.requests))
    assert costs.foretold(steps(2000)[0]) > 60
    costs.learn(steps(200)[0], 0.201)
    assert 1 < costs.foretold(steps(2000)[0]) < 4


def test_fuzz_says_where_the_time_went(tmp_path: Path) -> None:
    told = cumae("fuzz", BROKEN, "--op", "causal_windows", "--dialect", "fastdeploy", "-v", cwd=tmp_path)
    assert told.returncode == 1
    assert "key_offsets_as_rows: generating " in told.stdout
    assert ", reducing " in told.stdout


IMPORTS = """
import sys, torch
from cumae import check
new = []
def launch(query_lens, position_ids):
    before = set(sys.modules)
    torch.zeros(1)
    new.append(len(set(sys.modules) - before))
check(launch, "position_ids", checks=["agrees"], examples=1, save_to=None)
assert new and not any(new), new
"""


def test_what_torch_imports_for_a_first_call_is_no_time_of_the_function(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_of_several_kernels_it_is_told_in_a_line_that_time_was_short() -> None:
    plain = Verdict("f", "position_ids", "cumae", ())
    one = Verdict("g", "position_ids", "cumae", (), not_tried=2, slowest=(9.0, 1, 1))
    two = Verdict("h", "position_ids", "cumae", (), not_tried=3, left_out=1)
    assert time_was_short([plain, plain]) == ""
    left = "1 case left out as too large; 5 cases of the fixtures and saved failures not tried"
    assert time_was_short([plain, one, two]) == f"2 of 3 kernels had too little time: {left}"
