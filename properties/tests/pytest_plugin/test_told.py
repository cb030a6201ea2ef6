"""Output of pytest about cumae's items: header, FAILED lines, one report for one reason, pinned cases."""

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _pytest._io import TerminalWriter

from cumae import conforms_to
from cumae.oracle import Batch, Case, Request, Trace, to_json, trace_to_json
from cumae.properties.cases.domain import Domain
from cumae.properties.pytest_plugin.item import reason_of
from cumae.properties.pytest_plugin.reports import ATTRIBUTE, Coloured, Reporter
from cumae.properties.pytest_plugin.settings import HELP, header_lines
from cumae.properties.results.explain import explain, report_lines
from cumae.properties.results.failure_file import write_failure
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.search.first_cases import first_cases
from cumae.properties.tests.given.cases_by_hand import SMALL, refusal
from cumae.properties.tests.pytest_plugin.test_plugin import KERNEL_TEST, run_pytest, write_test

RAISES = KERNEL_TEST.replace("    position_ids.zero_()\n", "    1 // (len(query_lens) - len(query_lens))\n")
WRONG = Finding("agrees", "`ke[3]` differs from the oracle", "a rule", "ke", 3, "9", "8", 1, 5)
RAISED = Finding(
    "agrees", "the kernel raised E: 1", "must not raise", traceback='Top\n  File "a", line 1\nE: 1'
)
VERDICT = Verdict("f.py:f", "position_ids", "cumae", ("agrees",), failure=Failure(WRONG, SMALL, 1))


def test_nine_checks_that_fail_for_one_reason_have_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    write_test(tmp_path, RAISES)
    done = run_pytest(tmp_path, "--cumae-device=cpu", "--junitxml=all.xml")
    whole, _, summary = done.stdout.partition("short test summary info")
    failed = re.findall(r"^FAILED test_it\.py::test_positions\[(\w+)\] - (.*)$", summary, re.MULTILINE)
    assert len(failed) > 7 and whole.count("smallest case found") == 1, done.stdout
    told = re.findall(r"^the same finding as test_it\.py::test_positions\[agrees\]", whole, re.MULTILINE)
    assert len(told) == len(failed) - 1
    assert whole.count("reproduce: cumae replay") == len(failed)
    assert all(message.startswith("the kernel raised Zero") for _, message in failed)
    assert 'message="the kernel raised ZeroDivisionError' in (tmp_path / "all.xml").read_text()


def reported(nodeid: str, finding: Finding) -> Any:
    """Return the report of a failed item as a worker sends it."""
    lines = [tuple(line) for line in report_lines(replace(VERDICT, failure=Failure(finding, SMALL, 1)))]
    told = {"lines": lines, "line": finding.message, "where": ["test_it.py", 3]}
    told["reason"] = reason_of("f.py:f", finding)
    return SimpleNamespace(nodeid=nodeid, failed=True, longrepr="", **{ATTRIBUTE: told})


def printed(reports: list[Any], *, whole: bool = False) -> list[str]:
    reporter = Reporter(whole=whole)
    for report in reports:
        reporter.pytest_runtest_logreport(report)
    return [str(report.longrepr) for report in reports]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (replace(WRONG, check="keeps_facts"), True),
        (replace(WRONG, actual="7"), False),
        (replace(WRONG, message="`ke[3]` changed in a second launch"), False),
        (replace(RAISED, check="keeps_facts"), False),
    ],
)
def test_findings_have_one_reason_if_element_and_values_are_the_same(other: Finding, same: bool) -> None:
    first, second = printed([reported("a", WRONG), reported("b", other)])
    assert first.startswith("f.py:f disagrees")
    assert second.startswith("the same finding as a" if same else "f.py:f disagrees")


def test_errors_have_one_reason_if_they_are_raised_in_one_place() -> None:
    again = replace(RAISED, check="keeps_facts", message="the kernel raised E: 2")
    there = replace(again, traceback='Top\n  File "a", line 2\nE: 2')
    texts = printed(
        [
            reported("a", RAISED),
            reported("b", replace(again, traceback=RAISED.traceback.replace("E: 1", "E: 2"))),
            reported("c", there),
        ]
    )
    assert [text.startswith("the same finding as a") for text in texts] == [False, True, False]


def test_verbose_runs_show_every_report_whole() -> None:
    first, second = printed([reported("a", WRONG), reported("b", WRONG)], whole=True)
    assert first == second


def test_an_expected_failure_keeps_its_own_report() -> None:
    report = reported("a", WRONG)
    report.failed = False
    assert printed([report]) == [""]


def test_a_report_has_colours_where_the_terminal_has_them() -> None:
    report = reported("a", WRONG)
    printed([report])
    for coloured in (True, False):
        written = StringIO()
        terminal = TerminalWriter(written)
        terminal.hasmarkup = coloured
        report.longrepr.toterminal(terminal)
        assert ("\x1b[32m    expected 9\x1b[0m" in written.getvalue()) == coloured
        assert ("\x1b[31m    actual   8\x1b[0m" in written.getvalue()) == coloured
    assert isinstance(report.longrepr, Coloured)
    assert str(report.longrepr) == explain(VERDICT)
    assert str(report.longrepr.reprcrash) == "test_it.py:3: `ke[3]` differs from the oracle"


def test_plugins_find_the_report_of_an_exception() -> None:
    report = reported("a", WRONG)
    printed([report])
    place = {"nodeid": "a", "location": ("test_it.py", 2, "a"), "keywords": {}, "outcome": "failed"}
    made = pytest.TestReport(**place, longrepr=report.longrepr, when="call")  # type: ignore[arg-type]
    again = pytest.TestReport._from_json(made._to_json())
    assert str(again.longrepr) == explain(VERDICT)
    assert again.longreprtext == explain(VERDICT)


class Config:
    """The options and ini values of a pytest run."""

    def __init__(self, options: dict[str, str], ini: dict[str, str]) -> None:
        self._given = options, ini

    def getoption(self, name: str) -> str | None:
        return self._given[0].get(name)

    def getini(self, name: str) -> str:
        return self._given[1].get(name, "")


def test_the_header_says_what_was_chosen_and_where() -> None:
    lines = header_lines(Config({"cumae_seed": "7"}, {"cumae_device": "cpu", "cumae_profile": "ci"}))
    assert lines == [
        "cumae: device cpu (ini), profile ci (100 cases an item) (ini)",
        "cumae: seed 7 (option), shards 1, coverage not written",
        "cumae: failures .cumae/failures, database none",
    ]
    assert all(name in " ".join(lines) for name in HELP)


def test_the_header_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUMAE_DATABASE", "")
    assert header_lines(Config({}, {})) == []
    monkeypatch.setattr("cumae.properties.search.database.find_spec", lambda name: True)
    monkeypatch.setenv("CUMAE_DATABASE", "redis://user:secret@host/0")
    (line,) = header_lines(Config({}, {}))[2:]
    assert line == "cumae: failures .cumae/failures, database redis://host/0 ($CUMAE_DATABASE)"


def fill(context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    """Fill nothing: only its pinned cases are of interest."""


def pinned(cases: Any, **how: Any) -> Any:
    return conforms_to("position_ids", checks=("agrees",), cases=cases, **how)(fill)


def test_pinned_cases_come_first_and_may_stand_in_files(tmp_path: Path) -> None:
    here = Path(__file__).parent
    one, two, three = (Case(Batch((Request(context, 1, (0,)),), 16)) for context in (1, 2, 3))
    trace = Trace((two, three))
    (tmp_path / "case.json").write_text(json.dumps(to_json(two)))
    (tmp_path / "trace.json").write_text(json.dumps(trace_to_json(trace)))
    write_failure(tmp_path / "failure.json", VERDICT, Failure(WRONG, three, 1))
    names = [tmp_path / "case.json", str(tmp_path / "failure.json"), tmp_path / "trace.json"]
    relative = Path("../../../..") / here.parents[2].name / "fixtures"
    binding = pinned([one, *names]).cumae_binding
    assert binding.pinned == (one, two, three, trace)
    assert first_cases(binding, "f.py:f", None)[:4] == [one, two, three, trace]
    assert "cases[0]" not in refusal(lambda: pinned([relative / "missing.json"]))


@pytest.mark.parametrize(
    ("cases", "rule"),
    [
        (["missing.json"], "/missing.json: file, must be readable: No such file"),
        ([3], r"cases[0] = 3, must be a case, a trace or a path"),
        ("case.json", "cases = 'case.json', must be a list"),
        ([SMALL], "cases[0] = 'Case', must be promised by "),
    ],
)
def test_a_pinned_case_that_cannot_be_run_is_an_error_at_collection(cases: Any, rule: str) -> None:
    assert rule in refusal(lambda: pinned(cases, domain=Domain(max_requests=1)))


def test_a_pinned_failure_of_another_operation_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    write_failure(file, replace(VERDICT, operation="slot_mapping"), Failure(WRONG, SMALL, 1))
    told = "other.json.operation = 'slot_mapping', must be position_ids, as the test's"
    assert refusal(lambda: pinned([file])) == told


def test_a_pinned_case_is_tried_in_isolated_processes_and_by_the_command_line(tmp_path: Path) -> None:
    body = KERNEL_TEST.replace("examples=5", "examples=1, checks=('agrees',), cases=['far.json']")
    body += "    position_ids[position_ids == 123_457] = 0\n"
    write_test(tmp_path, body)
    far = Case(Batch((Request(123_457, 1, tuple(range(1930))),), 64))
    (tmp_path / "far.json").write_text(json.dumps(to_json(far)))
    done = run_pytest(tmp_path)
    assert "found after 1 case" in done.stdout, done.stdout
