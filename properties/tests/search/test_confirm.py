"""A failure that needs earlier calls is saved and reduced with them, and says so if none are found."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cumae.oracle import Batch, Case, Request, Trace, leveled
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.failure_file import write_failure
from cumae.properties.results.verdict import Finding, Verdict, failure_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.confirm import AGREES, confirm
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.search.recent import Recent
from cumae.properties.tests.functions import remembering
from cumae.properties.tests.given.traces import step_of
from cumae.properties.tests.helpers.command_line import cumae, cumae_process
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest, write_test

DEVICE = prepare("auto")
OP = ("--op", "position_ids")
NAMED = "cumae.properties.tests.functions.remembering:"


def fuzzed(folder: Path, name: str, *arguments: str) -> str:
    done = cumae("fuzz", NAMED + name, *OP, "--cases", "40", *arguments, cwd=folder)
    assert done.returncode == 1, done.stderr
    return done.stdout


def saved_in(folder: Path) -> Path:
    (file,) = (folder / ".cumae" / "failures").glob("*.json")
    return file


def test_an_answer_kept_in_a_module_fails_as_two_steps_in_any_process(tmp_path: Path) -> None:
    told = fuzzed(tmp_path, "kept_by_size")
    assert "disagrees with position_ids: forgets_history" in told
    assert "smallest trace found (2 steps" in told
    assert "an earlier answer written again" in told
    file = saved_in(tmp_path)
    assert f"reproduce: cumae replay .cumae/failures/{file.name}" in told
    assert len(json.loads(file.read_text())["trace"]) == 2
    again = cumae_process("replay", str(file), cwd=tmp_path)
    assert again.stdout.startswith("FAILED "), again.stdout


def test_what_no_history_shows_is_said_to_agree_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(remembering.ONCE, str(tmp_path / "process"))
    told = fuzzed(tmp_path, "wrong_in_one_process")
    assert f"differs from the oracle; {AGREES}" in told
    assert AGREES in json.loads(saved_in(tmp_path).read_text())["finding"]["message"]


def test_a_count_of_calls_under_pytest_is_reduced_to_as_many_steps(tmp_path: Path) -> None:
    write_test(
        tmp_path,
        "from cumae import conforms_to\n"
        "from cumae.properties.tests.functions.remembering import wrong_from_the_fifth_call\n\n"
        'test_it = conforms_to("position_ids", checks=("agrees",))(wrong_from_the_fifth_call)\n',
    )
    done = run_pytest(tmp_path, "--cumae-device", "cpu")
    assert done.returncode == 1
    assert "smallest trace found (5 steps" in done.stdout
    assert cumae_process("replay", str(saved_in(tmp_path)), cwd=tmp_path).returncode == 1


def test_a_trace_that_needs_its_calls_is_reduced_in_other_processes(tmp_path: Path) -> None:
    steps = [Case(step_of((context_len, 3), (2, 1))) for context_len in (0, 0, 1, 4)]
    file = tmp_path / "long.json"
    verdict = Verdict(f"{NAMED}kept_by_size", "position_ids", "cumae", ("forgets_history",))
    finding = Finding("forgets_history", "", "")
    write_failure(file, verdict, failure_of(finding, leveled(steps), 1))
    assert cumae("reduce", str(file), cwd=tmp_path).returncode == 1
    reduced = tmp_path / "long.reduced.json"
    assert len(json.loads(reduced.read_text())["trace"]) == 2
    assert cumae_process("replay", str(reduced), cwd=tmp_path).stdout.startswith("FAILED ")


def known_alone(whole: Trace | None) -> Verdict:
    """Return a confirmed failure of ``kept_by_size`` on one step, which alone is right."""
    step = Case(step_of((4, 3)))
    job = Job(
        target=f"{NAMED}kept_by_size", operation="position_ids", device=DEVICE, budget=Budget(examples=0)
    )
    verdict = Verdict(job.target, job.operation, job.dialect, ("forgets_history",))
    finding = Finding("forgets_history", "differs", "", left_out_by="Domain(order='decodes_first')")
    verdict.failure = replace(failure_of(finding, Trace((step,)), 9), whole=whole)
    confirm(job, verdict)
    return verdict


def test_a_trace_reduced_to_one_step_is_taken_whole_in_another_process() -> None:
    failure = known_alone(leveled([Case(step_of((lens, 3))) for lens in (0, 0, 1, 4)])).failure
    assert failure is not None and failure.trace is not None
    assert len(failure.trace.steps) == 2 and failure.finding.left_out_by == ""


def test_no_promise_is_offered_where_the_case_alone_agrees() -> None:
    failure = known_alone(None).failure
    assert failure is not None and failure.finding.left_out_by == ""
    assert failure.finding.message == f"differs; {AGREES}"


def test_the_cases_before_keep_their_blocks_in_blocks_of_one_size() -> None:
    batches = [Batch((Request(16, 1, ids),), size) for ids, size in (((8, 1, 6), 8), ((4, 5, 6), 8))]
    before, failing = map(Case, batches)
    recent = Recent()
    for case in (Case(Batch((Request(16, 1, (8, 1)),), 16)), before):
        recent.note(case)
    other, last, own = recent.steps_before(failing, lambda case: None)[:3]
    assert (own.batch, last.batch) == (failing.batch, before.batch)
    assert other.batch == Batch((Request(16, 1, (1, 2, 3)),), 8)


def test_a_failing_case_is_kept_as_it_was_before_its_reduction() -> None:
    cases = [Case(step_of(*((lens, 2) for lens in row))) for row in ((0, 0), (1, 4))]
    binding = binding_of(remembering.kept_by_size, "position_ids")
    remembering.ANSWERS.clear()
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["agrees"], first=cases)
    assert verdict.failure is not None and verdict.failure.whole is not None
    steps = [step.batch for step in verdict.failure.whole.steps]
    assert steps[-1] == cases[1].batch and cases[0].batch in steps
