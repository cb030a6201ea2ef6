"""Where nobody chose a device: plain tests are as without the plugin, cumae's items run all the same."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cumae.properties.checks import CHECKS
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import has_gpu
from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.pytest_plugin.test_plugin import KERNEL_TEST, run_pytest, write_test

pytestmark = pytest.mark.skipif(has_gpu(), reason="how cumae's items run where there is no GPU")

PLAIN = """
import os, sys
import pytest
import triton
import triton.language as tl

@triton.jit
def kernel(p):
    tl.store(p, 1)

def test_nothing_is_interpreted():
    assert "TRITON_INTERPRET" not in os.environ
    assert type(kernel).__name__ == "JITFunction"

@pytest.mark.skip(reason="no GPU")
def test_on_a_gpu():
    raise AssertionError

def test_right():
    pass

def test_wrong():
    assert 1 == 2
"""
TRITON_TEST = """
import torch
import triton
import triton.language as tl
from cumae import Domain, conforms_to

SMALL = Domain(max_requests=3, max_context_len=6, max_query_len=3)

@triton.jit
def positions(context_lens, starts, out, num_requests, num_tokens, FIRST: tl.constexpr):
    i = tl.program_id(0)
    found = tl.zeros((), tl.int64)
    for b in range(num_requests):
        start = tl.load(starts + b)
        live = (i >= start) & (i < tl.load(starts + b + 1))
        found = tl.where(live, tl.load(context_lens + b) + i - start + FIRST, found)
    tl.store(out + i, found)

@conforms_to("position_ids", domain=SMALL, examples=5, checks=("agrees",))
def test_positions(context_lens, cu_seqlens_q, position_ids):
    if position_ids.numel():
        grid = (position_ids.numel(),)
        positions[grid](context_lens, cu_seqlens_q, position_ids, len(cu_seqlens_q) - 1, grid[0], FIRST=0)
"""
WRONG = TRITON_TEST.replace("FIRST=0", "FIRST=1")
WORKERS = ("-p", "xdist", "-n", "2")


NEEDS = {
    "fixture": "@conforms_to('position_ids', fixtures=('tmp_path',), checks=('agrees',))\n"
    "def test_it(context_lens, query_lens, position_ids, tmp_path): ...\n",
    "method": "class TestIt:\n"
    "    @conforms_to('position_ids', checks=('agrees',))\n"
    "    def test_it(self, context_lens, query_lens, position_ids): ...\n",
    "parameter": "@pytest.mark.parametrize('tile', [1])\n"
    "@conforms_to('position_ids', fixtures=('tile',), checks=('agrees',))\n"
    "def test_it(context_lens, query_lens, position_ids, tile): ...\n",
    "mark": "@pytest.mark.usefixtures('tmp_path')\n"
    "@conforms_to('position_ids', checks=('agrees',))\n"
    "def test_it(context_lens, query_lens, position_ids): ...\n",
}


def _of_two_domains() -> str:
    """Return a test module with one function, wrong for fewer than two requests, under two domains."""
    asks = "    assert len(query_lens) >= 2\n    position_ids.zero_()\n"
    body = KERNEL_TEST.replace("    position_ids.zero_()\n", asks).replace("@conforms_to", "# @conforms_to")
    body = body.replace("import conforms_to", "import Domain, conforms_to").replace("def test_", "def ")
    for name, domain in (("two", "Domain(min_requests=2)"), ("any", "Domain()")):
        body += f"\ntest_{name} = conforms_to('position_ids', checks=('agrees',), domain={domain})(positions)"
    return body


CONFTEST = """
import sys, types
sys.path.append(__file__.replace("conftest.py", "lib"))
sys.modules["stubbed"] = types.ModuleType("stubbed")
"""
ONE_CHECK = "not (" + " or ".join(name for name in CHECKS if name != "agrees") + ")"
SUITE = {
    "plain": PLAIN,
    "bad": WRONG,
    "dies": KERNEL_TEST.replace("position_ids.zero_()", "len(query_lens) or __import__('os').abort()"),
    "helped": f"from helped import HELP\n{KERNEL_TEST}\nassert HELP == 1\n",
    "stubbed": f"import stubbed\n{KERNEL_TEST}",
    "domain": _of_two_domains(),
} | {name: f"import pytest\nfrom cumae import conforms_to\n{body}" for name, body in NEEDS.items()}
Suite = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the outcome of each test of a run under ``-rA``."""
    found = re.findall(r"^(PASSED|FAILED|SKIPPED|ERROR) (?:\[\d+\] )?(\S+)", done.stdout, re.MULTILINE)
    return {name.rstrip(":"): outcome for outcome, name in found}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Return a folder of tests of many kinds, and how pytest ended in it."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "lib").mkdir()
    (folder / "lib" / "helped.py").write_text("HELP = 1\n")
    for name, body in SUITE.items():
        (folder / f"test_{name}.py").write_text(body)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CUDA_VISIBLE_DEVICES", "")
        done = run_pytest(folder, "-rA", "-k", ONE_CHECK, "--cumae-failures", "kept", "--import-mode=append")
    return folder, done


def test_plain_triton_tests_are_as_without_it(tmp_path: Path) -> None:
    write_test(tmp_path, TRITON_TEST)
    (tmp_path / "test_plain.py").write_text(PLAIN)
    done = run_pytest(tmp_path, "-rA", "--cumae-seed", "3", *WORKERS)
    asked = run_pytest(tmp_path, "test_it.py", "--cumae-seed", "3", "--cumae-device", "cpu")
    (tmp_path / "test_it.py").unlink()
    without = run_pytest(tmp_path, "-rA", "-p", "no:cumae.properties.pytest_plugin.plugin")
    plain = outcomes(without)
    assert len(plain) == 4 and set(plain.values()) == {"PASSED", "FAILED", "SKIPPED"}, without.stdout
    assert outcomes(done) == plain | {"test_it.py::test_positions[agrees]": "PASSED"}, done.stdout
    assert (done.returncode, without.returncode, asked.returncode) == (1, 1, 0)
    counts = [
        [line for line in one.stdout.splitlines() if line.startswith("cumae: ")] for one in (done, asked)
    ]
    assert counts[0] == counts[1]
    assert len(counts[0]) == 1 and re.match(r"cumae: [1-9]\d* cases, [1-9]\d* comparisons", counts[0][0])


def test_a_suite_without_workers_has_the_outcomes_of_its_tests(suite: Suite) -> None:
    _, done = suite
    plain = {"nothing_is_interpreted": "PASSED", "on_a_gpu": "SKIPPED", "right": "PASSED", "wrong": "FAILED"}
    found = {name: outcome for name, outcome in outcomes(done).items() if name.startswith("test_plain")}
    # A test that is skipped is named by its line.
    assert sorted(found.values()) == sorted(plain.values()), done.stdout
    assert done.returncode == 1
    assert re.search(r"cumae: [1-9]\d* cases, [1-9]\d* comparisons", done.stdout)


def test_a_wrong_kernel_fails_apart_with_the_whole_report(suite: Suite, tmp_path: Path) -> None:
    folder, done = suite
    assert outcomes(done)["test_bad.py::test_positions[agrees]"] == "FAILED"
    for part in ("`position_ids[0]` differs from the oracle", "expected 0", "actual   1", "likely: "):
        assert part in done.stdout
    (file,) = (folder / "kept").glob("*test_bad*.json")
    assert f"reproduce: cumae replay kept/{file.name}" in done.stdout
    again = cumae("replay", str(file), "--device", "cpu", cwd=folder)
    assert again.returncode == 1, again.stderr
    assert "test_bad.py:test_positions disagrees with position_ids" in again.stdout
    (tmp_path / "test_bad.py").write_text(TRITON_TEST)
    assert cumae("replay", str(file), "--device", "cpu", cwd=tmp_path).returncode == 0


def test_a_kernel_that_ends_its_process_leaves_pytest_alone(suite: Suite) -> None:
    _, done = suite
    assert outcomes(done)["test_dies.py::test_positions[agrees]"] == "FAILED"
    assert "the process died with signal 6" in done.stdout


@pytest.mark.parametrize("name", NEEDS)
def test_what_only_pytest_fills_names_the_line_to_add(name: str, suite: Suite) -> None:
    _, done = suite
    found = {outcome for test, outcome in outcomes(done).items() if test.startswith(f"test_{name}.py")}
    assert found == {"FAILED"}
    told = "add --cumae-device=auto (or `cumae_device = auto` in the ini file)"
    # On a CI machine pytest's summary repeats each message whole.
    reports = done.stdout.partition("short test summary info")[0]
    assert reports.count(told) == len(NEEDS)


def test_conftest_changes_the_path(suite: Suite) -> None:
    assert outcomes(suite[1])["test_helped.py::test_positions[agrees]"] == "PASSED"


def test_a_module_that_another_process_cannot_import_is_told_in_a_line(suite: Suite) -> None:
    _, done = suite
    assert outcomes(done)["test_stubbed.py::test_positions[agrees]"] == "FAILED"
    told = "must be importable: No module named 'stubbed' (test_stubbed.py:"
    assert f"target = 'test_stubbed.py:test_positions', {told}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pytest.skip('no GPU', allow_module_level=True)", "Skipped: no GPU (leaves.py:2"),
        ("assert not pytest, 'a rule'", "AssertionError: a rule (leaves.py:2"),
        ("raise SystemExit(3)", "SystemExit: 3 (leaves.py:2"),
    ],
)
def test_a_module_that_leaves_while_it_is_imported_is_told_in_a_line(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "leaves.py").write_text(f"import pytest\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(f"must be importable: {told}")):
        load_function(f"{tmp_path / 'leaves.py'}:name")
    sys.modules.pop("leaves", None)


def test_a_domain_comes_along_under_the_name_that_the_test_has(suite: Suite) -> None:
    _, done = suite
    found = {name: outcome for name, outcome in outcomes(done).items() if name.startswith("test_domain")}
    assert found == {
        "test_domain.py::test_two[agrees]": "PASSED",
        "test_domain.py::test_any[agrees]": "FAILED",
    }
    assert "(test_domain.py:" in done.stdout


def test_interpreting_by_the_users_own_choice_runs_in_this_process(tmp_path: Path) -> None:
    here = "import os\nos.environ['TRITON_INTERPRET'] = '1'\nPID = os.getpid()\n"
    note = "    open('pid.txt', 'w').write(f'{PID} {os.getppid()}')\n"
    body = TRITON_TEST.replace("    if position_ids", note + "    if position_ids")
    last = "def test_pid():\n    assert open('pid.txt').read().split()[0] == str(PID)\n"
    write_test(tmp_path, here + body + last)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_variable_set_behind_the_import_of_triton_changes_nothing(tmp_path: Path) -> None:
    write_test(tmp_path, TRITON_TEST)
    (tmp_path / "test_first.py").write_text(
        "import os, triton\nos.environ['TRITON_INTERPRET'] = '1'\ndef test_right(): pass\n"
    )
    done = run_pytest(tmp_path, "test_first.py", "test_it.py")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_packages_of_tests_are_found_and_this_process_stays_as_it_is(mode: str, tmp_path: Path) -> None:
    packages, loose = tmp_path / "tests" / "unit", tmp_path / "loose" / "unit"
    for folder in (packages, loose):
        folder.mkdir(parents=True)
        (folder / f"helped_{folder.parent.name}.py").write_text("HELP = 1\n")
        dot = "." if folder is packages or mode == "importlib" else ""
        line = f"from {dot}helped_{folder.parent.name} import HELP"
        (folder / f"test_{folder.parent.name}.py").write_text(f"{line}\n{KERNEL_TEST}\nassert HELP == 1\n")
    for package in (packages, packages.parent):
        (package / "__init__.py").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "import os, sys\n"
        "def pytest_unconfigure():\n"
        "    seen = ['TRITON_INTERPRET' in os.environ, 'triton' in sys.modules]\n"
        "    open('seen.txt', 'w').write(str(seen))\n"
    )
    done = run_pytest(tmp_path, f"--import-mode={mode}", "-k", "agrees", "tests", "loose")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert (tmp_path / "seen.txt").read_text() == "[False, False]"


def test_an_interrupt_ends_the_process_of_its_own(tmp_path: Path) -> None:
    note = "    open('pid.txt', 'w').write(str(__import__('os').getpid()))\n"
    note += "    __import__('time').sleep(300)\n"
    write_test(tmp_path, KERNEL_TEST.replace("    position_ids.zero_()\n", note))
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    # A shell's background jobs ignore the signal, and so would this one.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "-p", "cumae.properties.pytest_plugin.plugin", "-k", "agrees"]
    clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    process = subprocess.Popen(command, cwd=tmp_path, env=clean, stdout=subprocess.PIPE, text=True)
    file = tmp_path / "pid.txt"
    for _ in range(600):
        if file.is_file() and file.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 2, told
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
