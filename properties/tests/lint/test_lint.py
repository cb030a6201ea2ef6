"""The static look at compiled kernels: each rule is broken by a small kernel, and by no correct one."""

import doctest
import json
import os
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from cumae.properties.lint import types_of_results
from cumae.properties.tests.helpers.python_process import Done, run_python
from cumae.properties.tests.operations.test_tracebacks import line_of

SCRIPT = Path(__file__).parents[1] / "helpers/lint_small.py"
RECORD = Path(__file__).parents[3] / "ci" / "results" / "cpu-targets.json"
LINT = ("-m", "cumae.properties.commands", "lint")
TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950"]
# Tiles of `_write_pages` follow the width of the table, `_copy_rows` has ways for few and for many rows of
# each alignment, as `_read_pages` has. It and the next scan 64, 256, 1,024 or 4,096 requests in a tile, of
# which `_write_chunks` has three sizes. With more requests, lists and `_write_step` find sums in memory.
SCANNING = ("_write_flat_decodes", "_write_layout")
LISTING = ("_write_allocated_slots", "_write_draft_steps", "_write_kv_indices", "_write_sequence_chunks")
MOST_COMPILES = {"_write_pages": 3, "_copy_rows": 4, "_write_chunks": 4, "_write_step": 5, "_read_pages": 5}
MOST_COMPILES |= dict.fromkeys(SCANNING, 4) | dict.fromkeys(LISTING, 5)
WIDE, DEFINED, BOUNDED = "64-bit addresses", "defined loads", "bounded compiles"


def run(folder: Path, *arguments: str) -> Done:
    """Run Python where kernels are compiled: a process that interprets them cannot. It sees no GPU."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    return run_python(*arguments, cwd=folder, environment=environment, timeout=600)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    done = run(tmp_path_factory.mktemp("lint"), str(SCRIPT))
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_shipped_kernels_break_no_rule_and_compile_for_six_targets(tmp_path: Path) -> None:
    """Kernels that `ci/targets` recorded with this Triton are not compiled again."""
    file, record = tmp_path / "found.json", tmp_path / RECORD.name
    shutil.copy(RECORD, record)
    done = run(tmp_path, *LINT, "--record", str(record), "--json", str(file))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    found = json.loads(file.read_text())
    assert found["findings"] == []
    assert len(found["kernels"]) == 39
    for kernel in found["kernels"]:
        # With a GPU, variants would be those of this GPU: fp8 that it rounds itself, early launches.
        assert kernel["missing"] == {}
        assert sorted(kernel["compiled"]) == sorted(TARGETS), kernel
        assert kernel["compiles_any_size"] <= MOST_COMPILES.get(kernel["kernel"], 2)
    if json.loads(RECORD.read_text())["triton"] == version("triton"):
        assert record.read_text() == RECORD.read_text(), "kernels changed: run ci/targets"


def test_a_record_spares_compiles_and_tells_what_rose(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    command = (*LINT, "cumae.gpu_impl:write_position_ids", "--op", "position_ids", "--record", str(record))
    assert "6 compiles that record.json did not hold" in run(tmp_path, *command).stdout
    content = json.loads(record.read_text())
    ((name, kernel),) = content["kernels"].items()
    assert name.startswith("_write_positions(token_to_request: *i32, ")
    assert name.endswith(", TILE=512, BEGINS_EARLY=False, num_warps=8)")
    assert list(kernel) == ["text", *TARGETS]
    assert all(8 <= kernel[target]["registers"] <= 128 for target in TARGETS)
    assert "0 compiles" in run(tmp_path, *command).stdout
    assert json.loads(record.read_text()) == content
    had = kernel["sm_90"]["registers"]
    kernel["text"], kernel["sm_90"]["registers"] = "another", had - 1
    another = {"_write_windows(out: *i32)": kernel}
    content["kernels"] |= another | {"_write_positions(of: *i32, an_earlier: i32)": kernel}
    record.write_text(json.dumps(content))
    told = run(tmp_path, *command).stdout
    assert "6 compiles" in told
    assert f"for sm_90: registers {had - 1} → {had}" in told and told.count("→") == 1
    kernels = json.loads(record.read_text())["kernels"]
    assert {*kernels} == {name, *another}, "of other kernels all is kept, of this one what it has now"
    record.write_text("[]")
    refused = run(tmp_path, *command)
    assert refused.returncode == 2 and "must be a file that this option has written" in refused.stderr


@pytest.mark.parametrize(
    "name",
    ["narrow", "widened_late", "shifted", "stored_wide", "carried", "called", "too_many_programs"],
)
def test_a_narrow_product_is_found_where_it_stands(small: Any, name: str) -> None:
    ((rule, source, text),) = small[name]["flaws"]
    assert rule == WIDE
    assert source.endswith("# breaks")
    assert text.endswith("`out`")


@pytest.mark.parametrize("name", ["wide", "bounded", "grows_by_powers"])
def test_a_correct_kernel_has_no_flaw(small: Any, name: str) -> None:
    assert small[name]["flaws"] == []


@pytest.mark.parametrize(
    ("use", "reached"),
    [
        ("sum", "a sum over lanes"),
        ("address", "an address"),
        ("wider store", "a store that its mask leaves out"),
        ("mask", "a mask"),
        ("branch", "a branch"),
        ("other axis", "a store that its mask leaves out"),
        ("next round", "a store that its mask leaves out"),
    ],
)
def test_an_undefined_load_is_found_by_what_it_reaches(small: Any, use: str, reached: str) -> None:
    flaws = small[use]["flaws"]
    assert len(flaws) == (2 if use == "next round" else 1)
    for rule, source, text in flaws:
        assert rule == DEFINED
        assert source.endswith("# breaks")
        assert text.startswith(f"a masked load without `other` reaches {reached}, line ")
        assert ";" not in text


@pytest.mark.parametrize("use", ["same mask", "chosen away", "same mask, turned"])
def test_undefined_lanes_that_the_same_mask_leaves_out_do_no_harm(small: Any, use: str) -> None:
    assert small[use]["flaws"] == []


def test_a_constant_that_grows_with_the_step_is_found(small: Any) -> None:
    ((rule, _, text),) = small["grows"]["flaws"]
    assert rule == BOUNDED
    assert "values of `NUMBER`" in text
    assert small["grows"]["keys"] > small["grows_by_powers"]["keys"]


def test_what_a_target_cannot_have_is_listed_and_no_flaw(small: Any) -> None:
    assert small["has_fp8"]["flaws"] == []
    assert small["has_fp8"]["missing"] == {"sm_80": ["fp8e4nv"]}
    assert list(small["has_fp8"]["compiled"]) == TARGETS[1:]


def test_a_kernel_that_does_not_compile_is_found(small: Any) -> None:
    ((rule, _, text),) = small["never_compiles"]["flaws"]
    assert rule == "compiles"
    assert "power of 2" in text and text.endswith("; EACH = 3")


def test_a_function_that_launches_nothing_is_refused(small: Any) -> None:
    assert small["launches_nothing"] == {
        "refused": "target = 'launches_nothing', must launch a Triton kernel"
    }


@pytest.mark.parametrize(
    "report", ["FastDeploy#7367", "vllm#57030", "sglang#14224", "vllm#50427", "flashinfer#3136"]
)
def test_a_narrow_product_of_an_engine_is_found_and_gone_once_repaired(small: Any, report: str) -> None:
    names = (report, f"{report}, repaired")
    wrong, right = ({source for _, source, _ in small[name]["flaws"]} for name in names)
    assert wrong - right
    assert not any("int32" in source for source in right)


def test_a_target_without_an_operation_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "cumae.properties.commands", "lint", "cumae.gpu_impl:write_position_ids")
    assert done.returncode == 2
    assert done.stderr == "cumae: --op = None, must name the operation that TARGET computes\n"


LAUNCHER = """
import os
{line}
import torch
import triton
import triton.language as tl
{late}
from cumae import Domain, conforms_to

@triton.jit
def fill(out):
    tl.store(out + tl.program_id(0), 1)

@conforms_to("position_ids", domain=Domain(min_requests=2), checks=("agrees",))
def test_fill(query_lens, position_ids):
    if len(query_lens) < 2:
        raise IndexError("fewer requests than promised")
    print("launches")
    fill[(max(position_ids.numel(), 1),)](position_ids)
"""


def linted(folder: Path, **lines: str) -> Done:
    (folder / "launcher.py").write_text(LAUNCHER.format(**{"line": "", "late": "", **lines}))
    return run(folder, "-m", "cumae.properties.commands", "lint", "launcher.py:test_fill")


@pytest.mark.parametrize(
    "line",
    ["os.environ.setdefault('TRITON_INTERPRET', '1')", "os.environ['TRITON_INTERPRET'] = '1'"],
)
def test_a_module_that_sets_the_interpreter_is_compiled_on_its_own_domain(line: str, tmp_path: Path) -> None:
    done = linted(tmp_path, line=line)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings in 1 kernel" in done.stdout
    assert "fewer requests" not in done.stdout
    assert done.stdout.count("launches\n") == 10  # the last lines of many
    assert "printed at the end:\n  launches\n" in done.stdout


def test_a_kernel_that_is_interpreted_in_spite_of_it_is_refused_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    done = linted(tmp_path, late="triton.knobs.runtime.interpret = True")
    assert done.returncode == 2, done.stdout
    rule = "must launch what Triton compiles: fill was made with TRITON_INTERPRET=1"
    assert done.stderr == f"cumae: target = 'launcher.py:test_fill', {rule}\n"
    assert time.monotonic() - started < 60


RAISES = """
from cumae.properties.operations.binding import binding_of
from cumae.properties.lint.linter import lint
from cumae.properties.tests.functions import raising

for name in ("on_the_host", "in_a_device_function", "never_compiles"):
    binding = binding_of(getattr(raising, name), "position_ids")
    try:
        found = lint([(name, binding, ())], targets=())
    except ValueError as error:
        print(error)
    else:
        for flaw in found.flaws:
            print(flaw.line, flaw.text, flaw.source, sep=" | ")
"""


def test_what_a_function_and_a_compiler_say_keeps_text_and_line(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", RAISES)
    assert done.returncode == 0, done.stderr[-2000:]
    host, device, kernel = done.stdout.splitlines()
    place = line_of("raises", "on_the_host")
    assert host.endswith(f"kernel: it raised IndexError: list index out of range ({place})")
    for told, name, why in ((device, "divide", "by zero"), (kernel, "divides", "power of 2")):
        line, text, source = told.split(" | ")
        assert line_of("here", name) == f"raising.py:{line} in {name}"
        assert source.endswith(f"# here: in {name}")
        assert text.startswith("does not compile for any target: CompilationError: ") and why in text


def test_the_examples_of_types_hold() -> None:
    results = doctest.testmod(types_of_results)
    assert results.failed == 0
    assert results.attempted == 3
