"""An error of a function under test is placed at its own line and at its kernel's, whatever wraps it."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

import cumae
from cumae.properties.checks import CheckName
from cumae.properties.operations.binding import binding_of
from cumae.properties.pytest_plugin.conforms_to import conforms_to
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions import raising
from cumae.properties.tests.helpers.command_line import cumae as command
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest, write_test

ON_CPU = pytest.mark.skipif(prepare("auto") != "cpu", reason="these kernels end in the interpreter")
SOURCE = Path(raising.__file__).read_text().splitlines()
RAISING = "cumae.properties.tests.functions.raising"


def line_of(mark: str, name: str) -> str:
    """Return place and name of the line that is marked so."""
    (line,) = [i for i, text in enumerate(SOURCE, 1) if text.endswith(f"# {mark}: in {name}")]
    return f"raising.py:{line} in {name}"


def found_in(function: Any, *checks: CheckName) -> Finding:
    verdict = check(function, "position_ids", checks=checks or ("agrees",), examples=1, save_to=None)
    assert verdict.failure is not None
    return verdict.failure.finding


@pytest.mark.parametrize(
    ("name", "said", "where"),
    [
        ("on_the_host", "IndexError: list index out of range", "on_the_host"),
        ("in_a_helper", "IndexError: list index out of range", "on_the_host"),
        ("in_torch", "RuntimeError: shape '[2]' is invalid for input of size 3", "in_torch"),
        ("WhenMade", "OSError: no room", "__init__"),
        ("leaves", "SystemExit", "leaves"),
        ("panics", "Panic: index out of bounds", "panics"),
        ("unspeakable", "Unspeakable: no text: its __str__ raised LookupError", "unspeakable"),
    ],
)
def test_an_error_of_the_host_is_placed_at_the_innermost_line_of_the_user(
    name: str, said: str, where: str
) -> None:
    for function in (getattr(raising, name), conforms_to("position_ids")(getattr(raising, name))):
        finding = found_in(function)
        assert finding.message == f"the kernel raised {said} ({line_of('raises', where)})"


@ON_CPU
@pytest.mark.parametrize(
    ("name", "said", "host", "kernel"),
    [
        ("in_a_kernel", "IndexError: list index out of range", "in_a_kernel", "reads_a_list"),
        ("wrapped", "IndexError: list index out of range", "in_a_kernel", "reads_a_list"),
        ("bound", "IndexError: list index out of range", "in_a_kernel", "reads_a_list"),
        ("WhenCalled", "IndexError: list index out of range", "in_a_kernel", "reads_a_list"),
        ("instance", "IndexError: list index out of range", "in_a_kernel", "reads_a_list"),
        ("in_a_device_function", "", "in_a_device_function", "divide"),
        ("told_anew", "RuntimeError: the launch failed", "told_anew", "reads_a_list"),
    ],
)
def test_an_error_in_a_kernel_is_placed_there_too(name: str, said: str, host: str, kernel: str) -> None:
    for function in (getattr(raising, name), conforms_to("position_ids")(getattr(raising, name))):
        message = found_in(function).message
        assert message.startswith(f"the kernel raised {said}")
        assert message.endswith(f" ({line_of('raises', host)}, kernel at {line_of('here', kernel)})")
        assert "InterpreterError" not in message


@ON_CPU
def test_a_launch_that_fails_before_the_kernel_names_its_def() -> None:
    message = found_in(raising.before_the_kernel).message
    line = 1 + next(i for i, text in enumerate(SOURCE) if text.startswith("def reads_a_list("))
    assert f"kernel at raising.py:{line} in reads_a_list" in message
    assert line_of("raises", "before_the_kernel") in message


@ON_CPU
def test_a_grid_that_raises_is_of_the_host() -> None:
    message = found_in(raising.in_a_grid).message
    line = 1 + next(i for i, text in enumerate(SOURCE) if text.startswith("def reads_a_list("))
    kernel = f"kernel at raising.py:{line} in reads_a_list"
    assert message.endswith(f" ({line_of('raises', 'grid_raises')}, {kernel})")


@pytest.mark.parametrize("name", ["WhenMade", "on_the_host", "WhenCalled"])
def test_a_step_of_an_engine_keeps_text_line_and_traceback(name: str) -> None:
    finding = found_in(getattr(raising, name), "forgets_history")
    assert re.search(r"raised \w+: .+ \(raising\.py:\d+ in \w+", finding.message)
    assert finding.traceback.startswith("Traceback (most recent call last):\n")
    assert "cumae/properties/running/call.py" not in finding.traceback


def test_the_traceback_is_whole_and_begins_at_the_users_line() -> None:
    lines = found_in(raising.in_a_helper).traceback.splitlines()
    assert lines[1].endswith("in in_a_helper")
    assert any(line.endswith("in on_the_host") for line in lines)
    assert lines[-1] == "IndexError: list index out of range"


def test_it_travels_from_another_process_into_the_file_and_is_printed_when_asked(tmp_path: Path) -> None:
    target = f"{RAISING}:in_a_helper"
    fuzz = ("fuzz", target, "--op", "position_ids", "--cases", "3", "--check", "agrees")
    plain, long = command(*fuzz, cwd=tmp_path), command(*fuzz, "-v", cwd=tmp_path)
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    place = line_of("raises", "on_the_host")
    for done in (plain, long, command("replay", str(file), "-v", cwd=tmp_path)):
        assert done.returncode == 1, done.stderr
        assert place in done.stdout
        assert ("Traceback (most recent call last)" in done.stdout) == (done is not plain)
    assert load_failure(file).finding.traceback.endswith("IndexError: list index out of range")


def test_pytest_prints_it_with_long_tracebacks(tmp_path: Path) -> None:
    write_test(
        tmp_path,
        "from cumae import conforms_to\n"
        "from cumae.properties.tests.functions import raising\n"
        "@conforms_to('position_ids', checks=('agrees',), examples=1)\n"
        "def test_it(query_lens, position_ids):\n"
        "    raising.on_the_host(query_lens, position_ids)\n",
    )
    short, long = (run_pytest(tmp_path, "--cumae-device", "cpu", *more) for more in ((), ("--tb=long",)))
    place = line_of("raises", "on_the_host")
    for done in (short, long):
        assert f"raised IndexError: list index out of range ({place})" in done.stdout
    assert "Traceback (most recent call last)" not in short.stdout
    assert "Traceback (most recent call last)" in long.stdout


def test_an_explanation_has_it_when_asked() -> None:
    verdict = check(raising.on_the_host, "position_ids", checks=("agrees",), examples=1, save_to=None)
    assert "Traceback" not in cumae.explain(verdict)
    assert "Traceback" in cumae.explain(verdict, verbose=True)
    assert binding_of(raising.on_the_host, "position_ids").name == f"{RAISING}:on_the_host"


def streams(position_ids: torch.Tensor) -> None:
    torch.cuda.current_stream()


def cores(position_ids: torch.Tensor) -> None:
    torch.cuda.get_device_properties(position_ids.device)


def guarded(position_ids: torch.Tensor) -> None:
    with torch.cuda.device(position_ids.device):
        position_ids.zero_()


def drivers(position_ids: torch.Tensor) -> None:
    triton.runtime.driver.active.get_current_device()


def events(position_ids: torch.Tensor) -> None:
    torch.cuda.Event().record()


def pins(position_ids: torch.Tensor) -> None:
    torch.empty(3, pin_memory=True)


def asserts(position_ids: torch.Tensor) -> None:
    assert position_ids.is_cuda


@ON_CPU
@pytest.mark.parametrize("function", [streams, cores, guarded, drivers, events, pins, asserts])
def test_a_function_that_asks_for_a_gpu_is_not_accused_where_there_is_none(function: Any) -> None:
    must = rf"target = '{function.__name__}', must not ask for a GPU on a machine without one: \w+Error"
    with pytest.raises(ValueError, match=must):
        check(function, "position_ids", examples=3, save_to=None)


def test_another_assertion_of_a_function_is_a_finding() -> None:
    def positions(position_ids: torch.Tensor) -> None:
        assert position_ids.numel() < 0

    assert check(positions, "position_ids", examples=3, save_to=None).failure is not None
