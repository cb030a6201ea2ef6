"""Output of a function: the last lines are kept, of a flood too, and of a process that dies."""

import os
from pathlib import Path

import pytest
import torch

from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.printed import KEPT_BYTES, MOST_BYTES, MOST_LINES, Printed, keeping_prints
from cumae.properties.tests.helpers.command_line import cumae_process

HERE = "cumae.properties.tests.search.test_printed"


def says_and_is_wrong(position_ids: torch.Tensor) -> None:
    position_ids.fill_(-7)
    for number in range(100):
        print("said", number)
    os.write(1, "from below \u2191\n".encode())


def says_and_dies(position_ids: torch.Tensor) -> None:
    print("last words")
    os.abort()


def test_a_flood_keeps_its_end() -> None:
    printed = Printed()
    os.write(printed.file, b"x" * MOST_BYTES + b"\n")
    os.write(printed.file, b"".join(b"line %d\n" % number for number in range(5000)))
    printed.trim()
    assert os.fstat(printed.file).st_size == KEPT_BYTES
    os.write(printed.file, b"the end\n")
    assert printed.lines() == (*(f"line {n}" for n in range(5001 - MOST_LINES, 5000)), "the end")
    printed.clear()
    assert printed.lines() == ()
    printed.close()


def test_prints_of_this_process_stay_away_from_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    print("before", flush=True)
    with keeping_prints() as printed:
        print("within")
        os.write(1, b"below\n")
        assert printed.lines() == ("within", "below")
    print("behind", flush=True)
    assert capfd.readouterr().out == "before\nbehind\n"


@pytest.mark.parametrize(
    ("function", "last"),
    [("says_and_is_wrong", ("said 98", "said 99", "from below \u2191")), ("says_and_dies", ("last words",))],
)
def test_the_verdict_of_an_isolated_search_holds_the_last_lines(
    function: str, last: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    device = prepare("auto")
    job = Job(
        target=f"{HERE}:{function}",
        operation="position_ids",
        device=device,
        budget=Budget(examples=5),
        checks=("agrees",),
    )
    verdict = search_isolated(job)
    assert verdict.failure is not None
    assert verdict.printed[-len(last) :] == last
    assert len(verdict.printed) <= MOST_LINES
    assert capfd.readouterr().out == ""


def test_the_verdict_of_a_check_holds_the_last_lines(capfd: pytest.CaptureFixture[str]) -> None:
    verdict = check(says_and_is_wrong, "position_ids", examples=5, checks=["agrees"], save_to=None)
    assert verdict.failure is not None
    assert verdict.printed[-2:] == ("said 99", "from below \u2191")
    assert len(verdict.printed) <= MOST_LINES
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_run_prints_the_last_lines_once(how: str, tmp_path: Path) -> None:
    told = cumae_process(
        "fuzz", f"{HERE}:says_and_is_wrong", "--op", "position_ids", "--cases", "5", how, cwd=tmp_path
    )
    assert told.returncode == 1, told.stderr
    assert told.stdout.startswith("1 kernel against its oracle")
    assert "  printed at the end:\n    said 91\n" in told.stdout
    assert told.stdout.count("from below") == 1
    assert "said 90" not in told.stdout
