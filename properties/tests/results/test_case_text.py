"""A failure as a line of text: from a report back to a verdict, without any file."""

import re
from pathlib import Path

import pytest

from cumae.oracle import Batch, Case, Request, to_json
from cumae.properties.results.case_text import MOST_CHARACTERS, PREFIX, from_text, read_source, to_text
from cumae.properties.results.explain import explain, text_of
from cumae.properties.results.failure_file import load_failure, save_failure
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae

FOUND = Finding(
    "agrees", "`ke[0]` differs from the oracle", "a rule", "ke", 0, "2", "1", traceback="long " * 900
)
SMALL = Case(Batch((Request(1, 1, (0,)),), 2))


def verdict_on(case: Case, target: str = BROKEN) -> Verdict:
    verdict = Verdict(target, "causal_windows", "fastdeploy", ("agrees",), versions="cumae 1, a GPU")
    verdict.failure = Failure(FOUND, case, 1)
    return verdict


def large() -> Case:
    return Case(
        Batch(
            tuple(Request(b * b % 977, 1 + b % 31, tuple(range(80 * b, 80 * b + 80))) for b in range(900)), 16
        )
    )


def line_of(report: str) -> str:
    (line,) = re.findall(r"without a file: (.*)", report)
    return str(line)


def test_a_report_ends_with_a_command_that_needs_no_file_and_with_the_versions(tmp_path: Path) -> None:
    report = explain(verdict_on(SMALL)).splitlines()
    assert re.fullmatch(r"  without a file: cumae replay 'cumae1:[\w-]+'", report[-2])
    assert report[-1] == "  versions: cumae 1, a GPU"
    done = cumae("replay", line_of("\n".join(report)).split("'")[1], "--no-isolate", cwd=tmp_path)
    assert done.returncode == 1
    assert "`ke[0]` differs from the oracle" in done.stdout
    assert [*tmp_path.iterdir()] == []


def test_every_command_takes_the_text_in_place_of_a_file(tmp_path: Path) -> None:
    text = line_of(explain(verdict_on(SMALL))).split("'")[1]
    drawn = cumae("draw", text, cwd=tmp_path)
    assert drawn.returncode == 0
    assert drawn.stdout.startswith(f"{BROKEN} failed causal_windows: agrees\n  `ke[0]` differs")
    fixed = cumae("replay", text, "--target", "cumae.gpu_impl:write_causal_windows", *AS_CUMAE, cwd=tmp_path)
    assert fixed.returncode == 0
    assert fixed.stdout.startswith(f"FIXED  {text[:24]}…: causal_windows, ")
    reduced = cumae("reduce", text, cwd=tmp_path)
    assert reduced.returncode == 1, reduced.stderr
    assert load_failure(tmp_path / "reduced.json").operation == "causal_windows"
    compared = ("cumae.fixtures.bugs.causal_windows:key_offsets_as_rows", BROKEN, *AS_BROKEN)
    same = cumae("compare", *compared, "--case", text, "--no-speed", cwd=tmp_path)
    assert same.returncode == 0, same.stderr
    assert "equal: 1 case" in same.stdout


AS_CUMAE = ("--dialect", "cumae", "--no-isolate")


def test_the_text_holds_what_the_file_holds_but_the_traceback(tmp_path: Path) -> None:
    verdict = verdict_on(SMALL)
    assert verdict.failure is not None
    saved = load_failure(save_failure(tmp_path, verdict, verdict.failure))
    read = load_failure(Path(text_of(verdict, verdict.failure)))
    assert (read.case, read.operation, read.dialect, read.target) == (SMALL, *AS_BROKEN[1::2], BROKEN)
    assert saved.finding.traceback and not read.finding.traceback
    assert read.finding.message == saved.finding.message


def test_a_case_that_is_too_long_for_a_line_is_named_by_its_file(tmp_path: Path) -> None:
    verdict = verdict_on(large())
    assert verdict.failure is not None
    alone = line_of(explain(verdict))
    assert re.fullmatch(
        r"the case is too long for a line \([\d,]+ characters, at most 4,000\): save it to a file", alone
    )
    file = save_failure(tmp_path, verdict, verdict.failure)
    verdict.failure = Failure(FOUND, large(), 1, file)
    report = explain(verdict)
    assert line_of(report).endswith(": keep the file")
    assert f"reproduce: cumae replay {file}\n" in report
    assert PREFIX not in report


def test_a_function_without_a_name_must_be_named(tmp_path: Path) -> None:
    report = explain(verdict_on(SMALL, "kernels:<lambda>"))
    assert line_of(report).endswith("' --target MODULE:NAME")


def test_a_finding_without_a_rule_is_read_back(tmp_path: Path) -> None:
    verdict = verdict_on(SMALL)
    failure = Failure(Finding("agrees", "it differs", ""), SMALL, 1)
    assert load_failure(save_failure(tmp_path, verdict, failure)).finding == failure.finding


@pytest.mark.parametrize("size", [1, 40])
def test_a_text_survives_the_line_breaks_of_a_log(size: int) -> None:
    text = to_text(to_json(SMALL))
    broken = "\n   ".join(text[i : i + size] for i in range(0, len(text), size))
    assert from_text(broken) == to_json(SMALL)


@pytest.mark.parametrize(
    "wrong", ["cumae1:", "cumae1:!", "cumae1:é", "cumae1:abcd", to_text(to_json(SMALL))[:-9]]
)
def test_a_text_that_is_not_whole_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be whole, as a report printed it"):
        read_source(Path(wrong))
    done = cumae("replay", wrong, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_text_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(ValueError, match="must be whole"):
        from_text(to_text("a" * (64 * 2**20)))


def test_the_limit_is_what_a_terminal_takes() -> None:
    assert len(f"cumae replay '{'x' * MOST_CHARACTERS}'") < 4096


def test_a_plain_case_may_be_a_text(tmp_path: Path) -> None:
    drawn = cumae("draw", to_text(to_json(SMALL)), cwd=tmp_path)
    assert drawn.returncode == 0
    assert "request 0  prefill  1 + 1" in drawn.stdout


class TestFixturesByName:
    def test_a_fixture_is_drawn_by_its_name(self, tmp_path: Path) -> None:
        whole = cumae("draw", "slot_mapping/shared_prefix", cwd=tmp_path)
        assert whole.returncode == 0
        assert whole.stdout.startswith("slot_mapping/shared_prefix: ")
        alone = cumae("draw", "rejected_drafts_have_no_slot", cwd=tmp_path)
        assert alone.stdout.startswith("slot_mapping/rejected_drafts_have_no_slot: ")

    @pytest.mark.parametrize(
        ("name", "rule"),
        [
            ("no_requests", "must be one of "),
            ("slot_mapping/shared_prefixes", "(did you mean 'slot_mapping/shared_prefix'?)"),
            ("rejected_draft_have_no_slot", "(did you mean 'rejected_drafts_have_no_slot'?)"),
            ("slot_mapping/two_writers_of_one_block", "must be a valid batch: "),
            ("qqqq", "must be a file, or OPERATION/NAME of a shipped fixture\n"),
        ],
    )
    def test_a_name_that_no_fixture_has_is_refused(self, name: str, rule: str, tmp_path: Path) -> None:
        done = cumae("draw", name, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert rule in done.stderr
