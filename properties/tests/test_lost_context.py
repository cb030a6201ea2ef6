"""A CUDA context that a kernel has lost is said to be, and what was found before is kept."""

from pathlib import Path

import pytest

from cumae.properties.running.device import prepare
from cumae.properties.tests.test_commands import cumae
from cumae.properties.tests.test_plugin import run_pytest, write_test

pytestmark = pytest.mark.skipif(prepare("auto") == "cpu", reason="a GPU has a context to lose")

FAR = "cumae.properties.tests.wrong_in_memory:reaches_far"
ITEMS = """
from cumae import conforms_to
from cumae.properties.tests.wrong_in_memory import reaches_far

@conforms_to("position_ids", checks=("agrees", "writes_everything"))
def test_positions(position_ids):
    reaches_far(position_ids)
"""


def test_compare_keeps_the_difference_whose_reduction_ended_there(tmp_path: Path) -> None:
    base = "cumae.gpu_impl:write_position_ids"
    told = cumae("compare", base, FAR, "--op", "position_ids", cwd=tmp_path)
    assert told.returncode == 1, told.stderr
    assert "illegal memory access" in told.stdout
    assert "the CUDA context is lost" in told.stdout
    assert len(list((tmp_path / ".cumae" / "failures").glob("*.json"))) == 1


def test_an_item_behind_the_one_that_lost_it_says_so_in_a_line(tmp_path: Path) -> None:
    write_test(tmp_path, ITEMS)
    told = run_pytest(tmp_path, "--cumae-device", "cuda")
    assert told.returncode == 1, told.stdout
    assert told.stdout.count("illegal memory access") >= 1
    assert told.stdout.count("the CUDA context of this process is lost, by an item before") >= 1
    assert "Traceback" not in told.stdout
