"""A run under Triton's assertions or compute-sanitizer is a process of its own, and replays as one."""

from pathlib import Path

import pytest

from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import load_failure
from cumae.properties.running.device import prepare
from cumae.properties.running.sanitizer import Sanitizer, first_fault, sanitizer_of
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.process import Call
from cumae.properties.search.processes import Processes, asked
from cumae.properties.tests.functions import mutated, wrong_kernels

DEVICE = prepare("auto")
CASE = Case(Batch((Request(3, 2, (4, 1), "prefill"),), 4))
WRAPS = "cumae.properties.tests.functions.wrong_kernels:wraps_where_masked"
ASSERTED = "/a/k.py:12: k: block: [0,0,0], thread: [1,0,0] Assertion `int32 overflow detected` failed."
CHECKED = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at k+0x90 in k.py:12
=========     by thread (0,0,0) in block (0,0,0)
"""


def job(sanitizer: str, folder: Path) -> Job:
    return Job(
        target=WRAPS,
        operation="position_ids",
        device=DEVICE,
        limit=60,
        budget=Budget(examples=0),
        failures=folder,
        checks=("agrees",),
        cases=(CASE,),
        reduce=False,
        sanitizer=sanitizer,
    )


def test_debug_fails_an_overflow_in_a_masked_lane(tmp_path: Path) -> None:
    plain = Trial(binding_of(wrong_kernels.wraps_where_masked, "position_ids"), CASE, DEVICE)
    assert CHECKS["agrees"](plain) is None
    verdict = search_isolated(job("debug", tmp_path))
    assert verdict.failure is not None
    assert "int32 overflow detected for operation mul" in verdict.failure.finding.message
    assert verdict.failure.file is not None
    assert load_failure(verdict.failure.file).finding.sanitizer == "debug"


def test_memcheck_needs_a_gpu_and_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"--sanitize = 'memcheck', must be debug on the CPU"):
        sanitizer_of("memcheck", "cpu")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=r"--sanitize = 'memcheck', must be debug where compute-sanitizer"):
        sanitizer_of("memcheck", "cuda")


def test_the_tool_stands_before_the_command_and_its_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f'#!/bin/sh\nprintf \'{CHECKED}\' > "$4"\nshift 6\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with Processes(f"{mutated.__name__}:Dies", sanitizer=sanitizer_of("memcheck", "cuda")) as processes:
        alive = processes.run(asked(Call("judge", 0)))
        dead = processes.run(asked(Call("judge", 2)))
    assert (alive.result, alive.death) == ("alive", "")
    assert dead.death == "the process ended with exit status 2"
    assert alive.fault == dead.fault == "Invalid __global__ read of size 4 bytes at k+0x90 in k.py:12"


def test_the_first_fault_is_told_in_one_line() -> None:
    assert first_fault("debug", f"a warning\n{ASSERTED}\n{ASSERTED}") == ASSERTED
    assert first_fault("memcheck", "========= ERROR SUMMARY: 0 errors") == ""
    assert Sanitizer().before(Path("x")) == ()


def test_large_cases_are_left_out_under_memcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = binding_of(load_function("cumae.gpu_impl:write_slot_mapping"), "slot_mapping")
    assert "survives_large_ids" in checks_for(binding)
    monkeypatch.setenv("CUMAE_SANITIZE", "memcheck")
    assert "survives_large_ids" not in checks_for(binding)
