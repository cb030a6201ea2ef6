"""pytest-xdist on GPUs: a GPU of the caller's list for each worker, shards, a worker that is killed."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from cumae.properties.pytest_plugin import workers
from cumae.properties.pytest_plugin.workers import limit_workers, mapping, take_gpu
from cumae.properties.results.failure_file import load_failure
from cumae.properties.running import gpus
from cumae.properties.running.gpus import Gpus
from cumae.properties.tests.pytest_plugin.test_plugin import KERNEL_TEST, run_pytest, write_test

GIB = 2**30
TWO_GPUS = """
import os
from cumae.properties.running import device, gpus
gpus.gpus_here = lambda: gpus.Gpus(4, 0)
gpus.bytes_here = lambda here: (45 * 2**30,) * 4
device.has_gpu = lambda: True
"""
TELLS = """
import os, sys, pytest
assert "torch" not in sys.modules
SEEN = os.environ["CUDA_VISIBLE_DEVICES"]

@pytest.mark.parametrize("number", range(40))
def test_tells(number):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == SEEN
    with open(os.environ["PYTEST_XDIST_WORKER"], "w") as file:
        file.write(SEEN)
"""
WRONG = KERNEL_TEST.replace("arange(context_len, context_len + query_len)", "arange(query_len)")
WRONG = WRONG.replace("examples=5", "examples=5, checks=('agrees',)")
XDIST = ("-p", "xdist")


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of pytest inside a test be no workers of the run around them."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "gpus_here", lambda: Gpus(4, 0))
    monkeypatch.setattr(gpus, "bytes_here", lambda here: (45 * GIB,) * 4)


def test_each_worker_sees_a_gpu_of_the_callers_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write_test(tmp_path, TELLS)
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    done = run_pytest(tmp_path, "-p", "two_gpus", *XDIST, "-n", "3", "--cumae-device=cuda", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = {file.name: file.read_text() for file in tmp_path.glob("gw*")}
    assert seen == {name: gpu for name, gpu in {"gw0": "3", "gw1": "1", "gw2": "3"}.items() if name in seen}
    assert len(set(seen.values())) == 2, seen
    told = "cumae: CUDA_VISIBLE_DEVICES: gw0 gw2 on 3, gw1 on 1; at most 4 workers of 20 GiB"
    assert told in done.stdout.splitlines()


def test_uninvited_no_variable_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write_test(tmp_path, TELLS)
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    done = run_pytest(tmp_path, "-p", "two_gpus", *XDIST, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file.read_text() for file in tmp_path.glob("gw*")} == {"3,1"}
    assert "CUDA_VISIBLE_DEVICES: gw0" not in done.stdout


def test_a_worker_changes_its_own_environment_only(two_gpus: None) -> None:
    for variables, worker, expected in (
        ({"CUDA_VISIBLE_DEVICES": "3,1"}, "gw1", "1"),
        ({}, "gw6", "2"),
        ({"CUDA_VISIBLE_DEVICES": "3,1"}, "", "3,1"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "gw1", ""),
    ):
        environment = {**variables, "PYTEST_XDIST_WORKER": worker}
        take_gpu(environment)
        assert environment["CUDA_VISIBLE_DEVICES"] == expected


@pytest.mark.parametrize(("asked", "visible", "most"), [(None, "0,1", 4), (3, "0,1", 3), (None, "2", 2)])
def test_memory_caps_the_workers(asked: int | None, visible: str, most: int, two_gpus: None) -> None:
    option = SimpleNamespace(maxprocesses=asked, tx=["popen"])
    limit_workers(option, {"CUDA_VISIBLE_DEVICES": visible})
    assert option.maxprocesses == most


def test_unknown_memory_and_no_gpu_cap_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    option = SimpleNamespace(maxprocesses=None, tx=["popen"])
    monkeypatch.setattr(gpus, "gpus_here", lambda: Gpus(4, 0))
    monkeypatch.setattr(gpus, "bytes_here", lambda here: ())
    limit_workers(option, {})
    assert option.maxprocesses is None
    assert mapping(option, {}) == "CUDA_VISIBLE_DEVICES: gw0 on 0"
    monkeypatch.setattr(gpus, "gpus_here", lambda: Gpus(0, 0))
    limit_workers(option, {})
    assert option.maxprocesses is None and workers.mapping(option, {}) == ""


def test_shards_keep_a_file_each_and_all_are_tried_first(tmp_path: Path) -> None:
    write_test(tmp_path, WRONG)
    options = ("--cumae-device=cpu", "--cumae-shards=3", *XDIST, "-n", "2")
    done = run_pytest(tmp_path, *options)
    assert "3 failed" in done.stdout, done.stdout
    names = sorted(file.name for file in (tmp_path / ".cumae/failures").iterdir())
    stem = "position_ids-cumae-test_it.py-test_positions-agrees"
    assert names == [f"{stem}-{i}of3.json" for i in (1, 2, 3)]
    again = run_pytest(tmp_path, *options, "--cumae-shards=1")
    assert "found after 1 case" in again.stdout


def test_parameters_of_a_test_keep_a_file_each(tmp_path: Path) -> None:
    marked = "@__import__('pytest').mark.parametrize('shift', [1, 2])\n@conforms_to"
    body = WRONG.replace("@conforms_to", marked).replace("checks=(", "fixtures=('shift',), checks=(")
    write_test(tmp_path, body.replace("position_ids):", "position_ids, shift):"))
    done = run_pytest(tmp_path, "--cumae-device=cpu")
    assert "2 failed" in done.stdout, done.stdout
    names = sorted(file.name for file in (tmp_path / ".cumae/failures").iterdir())
    assert [re.sub(r".*agrees", "", name) for name in names] == ["-1.json", "-2.json"]


def test_a_worker_that_is_killed_loses_nothing_found(tmp_path: Path) -> None:
    killed = "    with open('calls', 'a') as calls: calls.write('.')\n"
    killed += "    os.path.getsize('calls') >= 4 and os.kill(os.getpid(), 9)\n    position_ids.zero_()\n"
    write_test(tmp_path, "import os\n" + WRONG.replace("    position_ids.zero_()\n", killed))
    done = run_pytest(tmp_path, "--cumae-device=cpu", *XDIST, "-n", "2", "--max-worker-restart=0")
    assert done.returncode == 1 and "crashed while running" in done.stdout, done.stdout
    (file,) = (tmp_path / ".cumae/failures").glob("*.json")
    assert load_failure(file).finding.check == "agrees"
    write_test(tmp_path, WRONG)
    again = run_pytest(tmp_path, "--cumae-device=cpu")
    assert "found after 1 case" in again.stdout
