"""A CUDA context that a kernel has lost is said to be, and what was found before is kept."""

from pathlib import Path

import pytest
import torch

from cumae.properties.running.device import prepare
from cumae.properties.search.findings import finding_of_error
from cumae.properties.tests.helpers.command_line import cumae_process
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest, write_test

ON_GPU = pytest.mark.skipif(prepare("auto") == "cpu", reason="a GPU has a context to lose")

FAR = "cumae.properties.tests.functions.wrong_in_memory:reaches_far"
ITEMS = """
from cumae import conforms_to
from cumae.properties.tests.functions.wrong_in_memory import reaches_far

@conforms_to("position_ids", checks=("agrees", "writes_everything"))
def test_positions(position_ids):
    reaches_far(position_ids)
"""


def test_what_a_lost_context_raises_late_is_the_kernels_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise error

    error = RuntimeError("CUDA error: an illegal memory access was encountered\nSearch for it")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    told = "the kernel raised RuntimeError: CUDA error: an illegal memory access was encountered; "
    assert finding_of_error("agrees", error, "cuda").message == f"{told}the CUDA context is lost"


def test_an_error_of_a_check_is_none_of_the_kernel() -> None:
    with pytest.raises(RuntimeError, match="of the check"):
        finding_of_error("agrees", RuntimeError("of the check"), "cpu")


@ON_GPU
def test_offsets_that_wrap_and_reach_far_are_a_finding_of_survives_large_ids(tmp_path: Path) -> None:
    told = cumae_process("bugs", "--report", "vllm#57030", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "1 of 1 bug caught" in told.stdout


@ON_GPU
def test_compare_keeps_the_difference_whose_reduction_ended_there(tmp_path: Path) -> None:
    base = "cumae.gpu_impl:write_position_ids"
    told = cumae_process("compare", base, FAR, "--op", "position_ids", cwd=tmp_path)
    assert told.returncode == 1, told.stderr
    assert "illegal memory access" in told.stdout
    assert "the CUDA context is lost" in told.stdout
    assert len(list((tmp_path / ".cumae" / "failures").glob("*.json"))) == 1


@ON_GPU
def test_an_item_behind_the_one_that_lost_it_says_so_in_a_line(tmp_path: Path) -> None:
    write_test(tmp_path, ITEMS)
    told = run_pytest(tmp_path, "--cumae-device", "cuda")
    assert told.returncode == 1, told.stdout
    assert told.stdout.count("illegal memory access") >= 1
    assert told.stdout.count("an earlier item lost the CUDA context of this process") >= 1
    assert "Traceback" not in told.stdout
