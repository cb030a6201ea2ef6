"""The GPU of each worker: from the caller's own visible list, in turn, as many workers as memory holds."""

import subprocess
from pathlib import Path

import pytest

from cumae.properties.running.gpus import Gpus, Visible, bytes_here, most_workers, visible_gpus, worker_number

NVIDIA, AMD = Gpus(4, 0), Gpus(0, 4)
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("environment", "machine", "expected"),
    [
        ({}, NVIDIA, (CUDA, "0 1 2 3")),
        ({CUDA: "3,1"}, NVIDIA, (CUDA, "3 1")),
        ({CUDA: " 2 , 0 "}, NVIDIA, (CUDA, "2 0")),
        ({CUDA: "GPU-8932f937,MIG-7"}, NVIDIA, (CUDA, "GPU-8932f937 MIG-7")),
        ({CUDA: "1,-1,2"}, NVIDIA, (CUDA, "1")),  # CUDA ends the list there
        ({HIP: "1"}, NVIDIA, (CUDA, "0 1 2 3")),
        ({}, AMD, (HIP, "0 1 2 3")),
        ({HIP: "2,3"}, AMD, (HIP, "2 3")),
        ({CUDA: "2,3"}, AMD, (CUDA, "2 3")),
        ({ROCR: "1,2"}, AMD, (ROCR, "1 2")),
        ({ROCR: "1,2", HIP: "1"}, AMD, (HIP, "1")),  # HIP counts among those that ROCR leaves
        ({HIP: "0", CUDA: "3"}, AMD, (HIP, "0")),
    ],
)
def test_the_callers_list_is_what_workers_share(
    environment: dict[str, str], machine: Gpus, expected: tuple[str, str]
) -> None:
    variable, names = expected
    assert visible_gpus(environment, machine) == Visible(variable, tuple(names.split()))


@pytest.mark.parametrize(
    ("environment", "machine"),
    [({}, Gpus(0, 0)), ({CUDA: ""}, NVIDIA), ({CUDA: "-1"}, NVIDIA), ({HIP: ""}, AMD)],
)
def test_without_a_visible_gpu_there_is_none_to_take(environment: dict[str, str], machine: Gpus) -> None:
    assert visible_gpus(environment, machine) is None


def test_workers_take_gpus_in_turn() -> None:
    visible = Visible(CUDA, ("5", "7"))
    assert [visible.of(worker) for worker in range(5)] == ["5", "7", "5", "7", "5"]


@pytest.mark.parametrize(
    ("names", "gigabytes", "most"),
    [
        ("0 1", (139, 139), 12),
        ("0", (139, 139), 6),
        ("0 1", (24, 80), 2),  # the smallest counts for all
        ("0 1", (8, 8), 2),
        ("MIG-1 MIG-2 0", (80,), 6),
    ],
)
def test_memory_limits_the_workers(names: str, gigabytes: tuple[int, ...], most: int) -> None:
    assert most_workers(Visible(CUDA, tuple(names.split())), [size * 2**30 for size in gigabytes]) == most


def test_unknown_memory_limits_nothing() -> None:
    assert most_workers(Visible(CUDA, ("0",)), ()) is None


@pytest.mark.parametrize(("given", "number"), [("gw0", 0), ("gw13", 13), ("master", None), ("", None)])
def test_a_worker_knows_its_number(given: str, number: int | None) -> None:
    assert worker_number({"PYTEST_XDIST_WORKER": given}) == number


def test_memory_is_what_the_makers_tool_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho 143771; echo "[N/A]"; echo 81559\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert bytes_here(NVIDIA) == (143771 * 2**20, 81559 * 2**20)
    monkeypatch.setenv("PATH", "")
    assert bytes_here(NVIDIA) == ()


def test_memory_is_unknown_if_the_tool_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*command: object, **how: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 30)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert bytes_here(NVIDIA) == ()
