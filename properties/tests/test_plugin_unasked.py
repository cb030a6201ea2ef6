"""Where nobody chose a device: plain tests are as without the plugin, cumae's items run all the same."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cumae.properties.tests.test_commands import cumae
from cumae.properties.tests.test_plugin import KERNEL_TEST, run_pytest, write_test

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

@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="no GPU")
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

@conforms_to("position_ids", domain=SMALL, examples=5, checks=("agrees", "writes_everything"))
def test_positions(context_lens, cu_seqlens_q, position_ids):
    if position_ids.numel():
        grid = (position_ids.numel(),)
        positions[grid](context_lens, cu_seqlens_q, position_ids, len(cu_seqlens_q) - 1, grid[0], FIRST=0)
"""
WRONG = TRITON_TEST.replace("FIRST=0", "FIRST=1")
WORKERS = ("-p", "xdist", "-n", "2")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the outcome of each test of a run under ``-rA``."""
    found = re.findall(r"^(PASSED|FAILED|SKIPPED|ERROR) (?:\[\d+\] )?(\S+)", done.stdout, re.MULTILINE)
    return {name.rstrip(":"): outcome for outcome, name in found}


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_plain_triton_tests_are_as_without_it(workers: tuple[str, ...], tmp_path: Path) -> None:
    write_test(tmp_path, TRITON_TEST)
    (tmp_path / "test_plain.py").write_text(PLAIN)
    done = run_pytest(tmp_path, "-rA", *workers)
    (tmp_path / "test_it.py").unlink()
    without = run_pytest(tmp_path, "-rA", "-p", "no:cumae.properties.plugin", *workers)
    plain = outcomes(without)
    assert len(plain) == 4 and set(plain.values()) == {"PASSED", "FAILED", "SKIPPED"}, without.stdout
    of_cumae = {f"test_it.py::test_positions[{name}]": "PASSED" for name in ("agrees", "writes_everything")}
    assert outcomes(done) == plain | of_cumae, done.stdout
    assert (done.returncode, without.returncode) == (1, 1)
    assert re.search(r"cumae: [1-9]\d* cases, [1-9]\d* comparisons", done.stdout)


def test_an_item_apart_has_the_counts_it_has_when_asked(tmp_path: Path) -> None:
    write_test(tmp_path, TRITON_TEST)
    lines = []
    for more in ((), WORKERS, ("--cumae-device", "cpu")):
        done = run_pytest(tmp_path, "--cumae-seed", "3", *more)
        assert done.returncode == 0, done.stdout
        lines += [line for line in done.stdout.splitlines() if line.startswith("cumae: ")]
    assert len(lines) == 3 and len(set(lines)) == 1


def test_a_wrong_kernel_fails_apart_with_the_whole_report(tmp_path: Path) -> None:
    write_test(tmp_path, WRONG)
    done = run_pytest(tmp_path, "-k", "agrees", "--cumae-failures", "kept", "--cumae-profile", "ci")
    assert done.returncode == 1
    for part in ("`position_ids[0]` differs from the oracle", "expected 0", "actual   1", "likely: "):
        assert part in done.stdout
    (file,) = (tmp_path / "kept").glob("*.json")
    assert f"reproduce: cumae replay kept/{file.name}" in done.stdout
    again = cumae("replay", str(file), "--device", "cpu", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "test_it.py:test_positions disagrees with position_ids" in again.stdout
    write_test(tmp_path, TRITON_TEST)
    assert cumae("replay", str(file), "--device", "cpu", cwd=tmp_path).returncode == 0


def test_a_kernel_that_ends_its_process_leaves_pytest_alone(tmp_path: Path) -> None:
    body = KERNEL_TEST.replace("position_ids.zero_()", "__import__('os').abort()")
    write_test(tmp_path, body + "\ndef test_right(): pass\n")
    done = run_pytest(tmp_path, "-k", "agrees or right")
    assert done.returncode == 1
    assert "the process died with signal 6" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


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


@pytest.mark.parametrize("body", NEEDS.values(), ids=NEEDS)
def test_what_only_pytest_fills_names_the_line_to_add(body: str, tmp_path: Path) -> None:
    write_test(tmp_path, f"import pytest\nfrom cumae import conforms_to\n{body}\ndef test_right(): pass\n")
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "add --cumae-device=auto (or `cumae_device = auto` in the ini file)" in done.stdout


def test_this_process_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os, sys\n"
        "def pytest_unconfigure():\n"
        "    seen = ['TRITON_INTERPRET' in os.environ, 'triton' in sys.modules]\n"
        "    open('seen.txt', 'w').write(str(seen))\n"
    )
    write_test(tmp_path, KERNEL_TEST)
    done = run_pytest(tmp_path, "-k", "agrees")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "seen.txt").read_text() == "[False, False]"


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
    assert "3 passed" in done.stdout


HELPED = TRITON_TEST.replace("import torch\n", "{line}\nimport torch\n", 1) + "\nassert HELP == 1\n"


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
@pytest.mark.parametrize("inits", [True, False])
def test_packages_of_tests_and_what_stands_beside_them_are_found(
    mode: str, inits: bool, tmp_path: Path
) -> None:
    if mode != "importlib" and not inits:
        line = "from helped import HELP"
    else:
        line = "from .helped import HELP"
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "helped.py").write_text("HELP = 1\n")
    for package in (folder, folder.parent) if inits else ():
        (package / "__init__.py").write_text("")
    write_test(folder, HELPED.format(line=line))
    (folder / "pytest.ini").rename(tmp_path / "pytest.ini")
    done = run_pytest(tmp_path, f"--import-mode={mode}", "-k", "agrees", "tests")
    assert done.returncode == 0, done.stdout


def test_conftest_changes_the_path(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helped.py").write_text("HELP = 1\n")
    path = "import sys\nsys.path.append(__file__.replace('conftest.py', 'lib'))\n"
    (tmp_path / "conftest.py").write_text(path)
    write_test(tmp_path, HELPED.format(line="from helped import HELP"))
    done = run_pytest(tmp_path, "-k", "agrees")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import stubbed", "must be importable: No module named 'stubbed' (test_it.py:"),
        (
            "if not hasattr(sys, 'seen'): pytest.skip('no GPU', allow_module_level=True)",
            "must be importable: Skipped: no GPU (test_it.py:",
        ),
        ("assert hasattr(sys, 'seen'), 'a rule'", "must be importable: AssertionError: a rule (test_it.py:"),
    ],
)
def test_a_module_that_another_process_cannot_import_is_told_in_a_line(
    line: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(
        "import sys, types\nsys.seen = True\nsys.modules['stubbed'] = types.ModuleType('stubbed')\n"
    )
    write_test(tmp_path, f"import sys, pytest\n{line}\n{TRITON_TEST}")
    done = run_pytest(tmp_path, "-k", "agrees")
    assert done.returncode == 1
    assert f"target = 'test_it.py:test_positions', {told}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_domain_comes_along_under_the_name_that_the_test_has(tmp_path: Path) -> None:
    asks = "    assert len(query_lens) >= 2\n    position_ids.zero_()\n"
    body = KERNEL_TEST.replace("    position_ids.zero_()\n", asks).replace("@conforms_to", "# @conforms_to")
    two = "Domain(min_requests=2)"
    body = body.replace("import conforms_to", "import Domain, conforms_to").replace("def test_", "def ")
    for name, domain in (("two", two), ("any", "Domain()")):
        body += f"\ntest_{name} = conforms_to('position_ids', checks=('agrees',), domain={domain})(positions)"
    write_test(tmp_path, body)
    done = run_pytest(tmp_path, "-rA")
    found = {"test_it.py::test_two[agrees]": "PASSED", "test_it.py::test_any[agrees]": "FAILED"}
    assert outcomes(done) == found, done.stdout
    assert "(test_it.py:" in done.stdout


def test_an_interrupt_ends_the_process_of_its_own(tmp_path: Path) -> None:
    note = "    open('pid.txt', 'w').write(str(__import__('os').getpid()))\n"
    note += "    __import__('time').sleep(300)\n"
    write_test(tmp_path, KERNEL_TEST.replace("    position_ids.zero_()\n", note))
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-p", "cumae.properties.plugin", "-k", "agrees"]
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
