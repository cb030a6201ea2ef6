"""Output of a run: the verdict first, whole on a narrow terminal, and only shapes that can be shown."""

import time
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cumae.oracle import Batch, Case, Request
from cumae.properties.commands.progress import log_lines, telling
from cumae.properties.commands.results import print_interrupted, print_verdicts
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae

LONG = "some.package:a_kernel_with_a_name_of_forty_characters"
SHOWS = frozenset({"no requests", "one request", "two requests", "tokens"})
AGREES = Verdict(
    LONG,
    "position_ids",
    "cumae",
    ("agrees",),
    cases=12345,
    comparisons=98765,
    seconds=12.0,
    shapes={"one request": 5, "block size 16": 7, "no requests": 2},
    largest={"tokens": 4097, "requests": 33},
    shows=SHOWS,
)
CASE = Case(Batch((Request(1, 1, (0,)),), 2))
FOUND = Failure(Finding("agrees", "`position_ids[0]` differs", "rule"), CASE, 3)


def printed(verdicts: list[Verdict], width: int, *, verbose: bool = False) -> list[str]:
    console = Console(file=StringIO(), width=width)
    print_verdicts(verdicts, console, verbose=verbose)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_kernels_for_which_nothing_was_compared_do_not_disagree() -> None:
    empty, wrong = replace(AGREES, comparisons=0), replace(AGREES, failure=FOUND)
    assert printed([AGREES, empty], 80)[0].startswith("nothing compared for 1 of 2 kernels:")
    assert printed([empty, wrong], 80)[0].startswith("1 of 2 kernels disagree, 1 not compared:")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_verdict_is_the_first_line_and_whole(width: int) -> None:
    wrong = replace(AGREES, failure=FOUND)
    assert printed([AGREES], width)[0] == "all agree: 12345 cases, 98765 comparisons"
    first = printed([AGREES, wrong], width)[0]
    assert first == "1 of 2 kernels disagree: 24690 cases, 197530 comparisons"
    assert len(first) <= 60


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_cell_of_the_table_is_cut(width: int) -> None:
    text = "\n".join(printed([AGREES], width))
    assert "…" not in text
    assert "agrees" in text.splitlines()[2] and "12345" in text.splitlines()[2]
    assert ("98765" in text.splitlines()[2]) == (width >= 80)


def test_only_shapes_and_sizes_that_can_be_shown_are_told() -> None:
    text = "\n".join(printed([AGREES], 100))
    assert "shapes of batches: 2 of 3 tried; without a case: two requests" in text
    assert "largest: 4,097 tokens\n" in text
    assert "block size 16" not in text
    verbose = "\n".join(printed([AGREES], 100, verbose=True))
    assert "0.1% block size 16" in verbose
    assert "largest: 4,097 tokens, 33 requests" in verbose
    assert "shapes that make no difference here: 31-33 requests; " in verbose


def test_an_interruption_tells_what_agreed_and_what_was_found() -> None:
    console = Console(file=StringIO(), width=60)
    print_interrupted([AGREES, replace(AGREES, cases=4, failure=FOUND)], console)
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "interrupted: 1 of 2 kernels tried disagree; 12348 cases agreed"
    assert "  `position_ids[0]` differs" in lines


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with telling("comparing", every=0.05) as tell:
        tell("1 case")
        time.sleep(0.06)
        tell("2 cases")
        tell("3 cases")
    assert capsys.readouterr().err == "comparing: 2 cases\n"


@pytest.mark.parametrize(
    ("command", "arguments", "line"),
    [
        ("fuzz", ("--op", "position_ids", "--cases", "1"), "fuzz: write_position_ids: 0 cases, 0/s"),
        ("bugs", ("--report", "sglang#14224"), "bugs: 0 of 1  "),
        ("mutate", ("cumae.oracle:position_ids",), " judged; small cases"),
    ],
)
def test_a_log_of_a_long_command_gets_lines(
    command: str, arguments: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = partial(log_lines, every=0.0)
    monkeypatch.setattr(f"cumae.properties.commands.{command}.log_lines", often)
    told = cumae(command, *arguments, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert line in told.stderr


def test_a_narrow_terminal_breaks_a_report_at_spaces_and_keeps_what_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", cwd=tmp_path).stdout.splitlines()
    monkeypatch.setattr("cumae.properties.commands.results.terminal_width", lambda: 60)
    broken = cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", cwd=tmp_path).stdout.splitlines()
    copied = [line for line in whole if line.startswith(("  reproduce: ", "  without a file: "))]
    assert len(copied) == 2
    assert set(copied) <= set(broken)
    assert "  rule: one past the last key row complete at the token's" in broken
    assert "      position" in broken
    report = broken[broken.index("  `ke[0]` differs from the oracle") :]
    assert max(len(line) for line in report if line not in copied) <= 60
