"""A kernel that ends its process or never returns is a failure with its case, and the run goes on."""

import time
from pathlib import Path
from typing import Any

import pytest

from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search import budget, isolated
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.isolated import reduce_isolated, search_isolated, searching
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.search.process import Call
from cumae.properties.search.processes import Processes
from cumae.properties.tests.helpers.command_line import BROKEN, cumae

DEVICE = prepare("auto")

CRASHES = "cumae.properties.tests.functions.crashing:crashes_on_three_requests"
HANGS = "cumae.properties.tests.functions.crashing:never_returns"
LATE = "cumae.properties.tests.functions.crashing:crashes_late"
DEFINED = "cumae.properties.tests.functions.crashing:counts_requests"
LEAVES = "cumae.properties.tests.functions.crashing:leaves"


def steps(*lengths: int) -> Case:
    requests = [Request(2 * b, n, tuple(range(9 * b, 9 * b + 9)), "prefill") for b, n in enumerate(lengths)]
    return Case(Batch(tuple(requests), 4), Layout(num_padding_tokens=3))


def job(target: str, **other: Any) -> Job:
    known: dict[str, Any] = {"operation": "position_ids", "device": DEVICE, "limit": 60, "budget": Budget(0)}
    return Job(target=target, **(known | other))


def test_a_kernel_that_kills_its_process_is_a_failure_with_its_case_reduced(tmp_path: Path) -> None:
    seen: list[Verdict] = []
    cases = (steps(1), steps(2, 1, 3, 2, 5))
    verdict = search_isolated(job(CRASHES, cases=cases, checks=("agrees",), failures=tmp_path), seen.append)
    assert verdict.failure is not None and verdict.failure.file is not None
    assert verdict.failure.finding.check == "agrees"
    assert verdict.failure.finding.message == "the process died with signal 11"
    assert verdict.failure.case.num_requests_padded == 3
    assert sum(r.query_len for r in verdict.failure.case.batch.requests) == 0
    assert verdict.cases == 2
    saved = load_failure(verdict.failure.file)
    assert (saved.case, saved.target) == (verdict.failure.case, CRASHES)
    assert all(one is verdict for one in seen)


def test_a_kernel_that_never_returns_is_ended_at_the_limit(processes: Processes) -> None:
    started = time.monotonic()
    cases = (steps(1), steps(2, 1))
    verdict = processes.run(searching(job(HANGS, cases=cases, checks=("agrees",), limit=2, reduce=False)))
    assert verdict.failure is not None
    assert verdict.failure.finding.message == "did not return within 2 s"
    assert verdict.failure.case == cases[1]
    assert 2 < time.monotonic() - started < 60


def test_a_definition_that_does_not_return_is_told_and_not_the_function(processes: Processes) -> None:
    asked = job(DEFINED, operation="counts", cases=(steps(1), steps(2, 1)), checks=("agrees",), limit=1)
    told = r"definition must return within 1 s, for requests of cached \+ new tokens: 0 \+ 2, 2 \+ 1$"
    with pytest.raises(ValueError, match=told):
        processes.run(searching(asked))


def test_a_case_that_ends_its_process_is_no_smaller_case_of_another_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolated, "MOST_SKIPPED", 2)
    finding = Finding("agrees", "", "")
    smallest = reduce_isolated(job(CRASHES), finding, steps(2, 1, 3))
    assert (smallest.finding, smallest.tried) == (finding, steps(2, 1, 3))
    assert smallest.steps > 0


def test_bringing_down_a_case_that_ends_its_process_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SHRINK_SECONDS", 0.0)
    verdict = search_isolated(job(CRASHES, cases=(steps(2, 1, 3, 2, 5),), checks=("agrees",)))
    assert verdict.failure is not None
    lengths = [request.query_len for request in verdict.failure.case.batch.requests]
    assert lengths == [2, 1, 3, 2, 5]  # one smaller case is tried, which returns
    assert verdict.failure.stopped == "0 s were up"


def test_bringing_down_what_ends_its_process_counts_against_a_budget_of_time(processes: Processes) -> None:
    late, cases = CRASHES.replace("crashes_on_three_requests", "crashes_late"), (steps(*(2, 1, 3, 2, 5) * 3),)
    verdict = processes.run(searching(job(late, cases=cases, checks=("agrees",), budget=Budget(seconds=1))))
    assert verdict.failure is not None
    assert verdict.failure.stopped == "2 s were up"
    assert verdict.spent["reducing"] > 2


def test_a_kernel_that_leaves_in_order_is_reported_with_its_exit_status(processes: Processes) -> None:
    verdict = processes.run(searching(job(LEAVES, cases=(steps(1),), reduce=False)))
    assert verdict.failure is not None
    assert verdict.failure.finding.message == "the process ended with exit status 7"
    assert verdict.failure.finding.ended


def test_a_kernel_that_behaves_has_the_verdict_it_has_in_this_process(processes: Processes) -> None:
    one = job("cumae.gpu_impl:write_position_ids", budget=Budget(examples=10, seed=3))
    verdict = processes.run(searching(one))
    binding = binding_of(load_function(one.target), one.operation)
    here = search(binding, DEVICE, one.budget, first=first_cases(binding, one.target, None))
    assert verdict.ok
    assert verdict.named == here.named
    assert verdict.cases - verdict.toured == here.cases - here.toured
    assert verdict.shapes["length 0"] > 0


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("nowhere:f", r"target = 'nowhere:f', must be importable: No module named 'nowhere'"),
        (BROKEN, r"parameter = 'cu_seqlens_k', must be an output of position_ids|parameter = "),
    ],
)
def test_a_target_that_cannot_be_tried_is_refused_in_the_parent(
    target: str, rule: str, processes: Processes
) -> None:
    operation = "position_ids" if target != BROKEN else "sequence_layout"
    with pytest.raises(ValueError, match=rule):
        processes.run(searching(job(target, operation=operation)))


def test_a_limit_is_a_time() -> None:
    with pytest.raises(ValueError, match=r"limit = 0, must be > 0"):
        Call("search", job(CRASHES), 0)


def test_fuzz_and_replay_survive_a_kernel_that_crashes(tmp_path: Path) -> None:
    fuzzed = cumae(
        "fuzz", CRASHES, "--op", "position_ids", "--cases", "20", "--check", "agrees", cwd=tmp_path
    )
    assert fuzzed.returncode == 1, fuzzed.stderr
    assert "the process died with signal 11" in fuzzed.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    again = cumae("replay", str(file), cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "the process died with signal 11" in again.stdout
    good = cumae("replay", str(file), "--target", "cumae.gpu_impl:write_position_ids", cwd=tmp_path)
    assert good.returncode == 0, good.stderr
