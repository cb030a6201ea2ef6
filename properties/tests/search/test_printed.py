"""What a function prints: the last lines are kept, of a flood too, and of a process that dies."""

import os

import pytest
import torch

from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.printed import KEPT_BYTES, MOST_BYTES, MOST_LINES, Printed, keeping_prints

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
