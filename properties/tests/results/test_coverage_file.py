"""The coverage of kernels as coverage.py, pytest-cov and the JSON of the command line have it."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from cumae.properties.results.coverage import Condition, KernelCoverage, Loop, coverage_data, coverage_of_data
from cumae.properties.results.coverage_file import require_coverage, write_coverage
from cumae.properties.running.device import has_gpu
from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest

on_the_cpu = pytest.mark.skipif(has_gpu(), reason="these run in the interpreter, which a GPU leaves out")
has_coverage = pytest.mark.skipif(find_spec("coverage") is None, reason="coverage.py is an extra")
has_pytest_cov = pytest.mark.skipif(
    find_spec("pytest_cov") is None, reason="pytest-cov is a tool of ci/setup dev"
)
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def lens(context_lens, query_lens, seq_lens, count, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    if count > 10**9:
        tl.store(seq_lens, -1)
    context_len = tl.load(context_lens + o, mask=o < count)
    tl.store(seq_lens + o, context_len + tl.load(query_lens + o, mask=o < count), mask=o < count)

def launch(context_lens, query_lens, position_ids):
    count = context_lens.numel()
    seq_lens = torch.zeros(count + 1, dtype=torch.int64)
    lens[(1,)](context_lens, query_lens, seq_lens, count, BLOCK=triton.next_power_of_2(count + 1))
    position_ids.zero_()
    row = 0
    for seq_len, query_len in zip(seq_lens.tolist(), query_lens.tolist()):
        position_ids[row:row + query_len] = torch.arange(seq_len - query_len, seq_len)
        row += query_len
"""
CASES = ("--op", "position_ids", "--cases", "2", "--check", "agrees", "--no-isolate", "--device", "cpu")
TEST = """
from cumae import conforms_to
from {module} import launch

@conforms_to("position_ids", checks=("agrees",), examples=2)
def test_lens(context_lens, query_lens, position_ids):
    launch(context_lens, query_lens, position_ids)
"""


def line_of(text: str) -> int:
    (number,) = (i for i, line in enumerate(KERNEL.splitlines(), 1) if text in line)
    return number


MISSING = line_of("tl.store(seq_lens, -1)")


def covered_lines(file: Path, name: str) -> set[int]:
    """Return the lines of a source file that a data file says ran."""
    from coverage import CoverageData

    data = CoverageData(str(file))
    data.read()
    (measured,) = (path for path in data.measured_files() if Path(path).name == name)
    return set(data.lines(measured) or ())


@on_the_cpu
@has_coverage
def test_the_command_writes_a_file_that_coverage_py_reports(tmp_path: Path) -> None:
    import coverage

    (tmp_path / "mine_a.py").write_text(KERNEL)
    done = cumae(
        "fuzz", "mine_a:launch", *CASES, "-v", "--coverage", "data", "--json", "run.json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    told = f"lens (mine_a.py:{line_of('@triton.jit')}): 4 of 5 lines ran; not asked: line {MISSING} never ran"
    assert told in done.stdout
    assert "coverage of 1 kernel: data" in done.stdout
    assert covered_lines(tmp_path / "data", "mine_a.py") == {8, 9, 11, 12}
    reader = coverage.Coverage(data_file=str(tmp_path / "data"))
    reader.load()
    assert reader.xml_report(outfile=str(tmp_path / "coverage.xml")) > 0
    assert f'<line number="{MISSING}" hits="0"/>' in (tmp_path / "coverage.xml").read_text()
    (kernel,) = json.loads((tmp_path / "run.json").read_text())["verdicts"][0]["coverage"]
    assert kernel["never_ran"] == [MISSING]


@on_the_cpu
@has_coverage
def test_with_branches_the_file_holds_branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coverage import CoverageData

    (tmp_path / ".coveragerc").write_text("[run]\nbranch = true\n")
    monkeypatch.chdir(tmp_path)
    kernel = KernelCoverage(str(tmp_path / "k.py"), "k", 1, (3, 4), frozenset({(-1, 3), (3, -1)}))
    for _ in range(2):  # the second replaces the first
        write_coverage("--coverage", tmp_path / "data", [kernel])
    data = CoverageData(str(tmp_path / "data"))
    data.read()
    assert sorted(data.arcs(kernel.file) or ()) == [(-1, 3), (3, -1)]
    (tmp_path / ".coveragerc").write_text("[run\n")
    with pytest.raises(ValueError, match=r"--coverage = .*, must be"):
        write_coverage("--coverage", tmp_path / "data", [kernel])


@on_the_cpu
@has_coverage
@has_pytest_cov
def test_pytest_cov_combines_what_the_plugin_writes(tmp_path: Path) -> None:
    """The kernel runs in an isolated process, where pytest-cov measures nothing."""
    (tmp_path / "mine_b.py").write_text(KERNEL)
    (tmp_path / "test_b.py").write_text(TEST.format(module="mine_b"))
    measured = ("-p", "pytest_cov", "--cov=.", "--cov-branch", "--cumae-coverage=.coverage.kernels")
    done = run_pytest(tmp_path, *measured, "-vv")
    assert done.returncode == 0, done.stdout
    assert f"line {MISSING} never ran" in done.stdout
    assert {8, 9, 11, 12} <= (lines := covered_lines(tmp_path / ".coverage", "mine_b.py"))
    assert MISSING not in lines
    assert not (tmp_path / ".coverage.kernels").exists()


@on_the_cpu
def test_without_coverage_py_the_option_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coverage", None)
    done = cumae("fuzz", *CASES, "--coverage", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "--coverage = 'data', must be left out without coverage.py: pip install 'cumae[coverage]'"
        in done.stderr
    )


@has_coverage
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--coverage = .*, must be a file that can be written"):
        require_coverage("--coverage", tmp_path / "none" / "data")


def test_a_kernels_coverage_survives_the_way_through_json() -> None:
    kernel = KernelCoverage(
        "k.py",
        "k",
        1,
        (3, 4),
        frozenset({(-1, 3), (3, -1)}),
        (Condition(3, 8, "mask", was_true=True),),
        (Loop(4, 2),),
    )
    assert coverage_of_data(json.loads(json.dumps(coverage_data(kernel)))) == kernel
