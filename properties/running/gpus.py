"""The GPU of each worker of a run, taken in turn from the caller's own visible list."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

WORKER_BYTES = 20 * 2**30
"""Memory that one worker may need: `survives_large_ids` takes up to 17 GiB."""
NVIDIA = ("CUDA_VISIBLE_DEVICES",)
AMD = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""The variables that hide GPUs, the one that ROCm applies last first. HIP reads CUDA's too."""


class Gpus(NamedTuple):
    """How many GPUs of each maker a machine has."""

    num_nvidia: int
    num_amd: int


class Visible(NamedTuple):
    """The GPUs that a caller may use, by their names in ``variable``."""

    variable: str
    names: tuple[str, ...]

    def of(self, worker: int) -> str:
        """Return the GPU of a worker; workers take GPUs in turn."""
        return self.names[worker % len(self.names)]


def visible_gpus(environment: Mapping[str, str], gpus: Gpus) -> Visible | None:
    """Return the GPUs that the environment shows, and the variable that chooses among them, or None.

    Where no variable is set, all GPUs of the machine are visible. Where several are set, the one that is
    applied last chooses among those that the others leave.

    >>> visible_gpus({"CUDA_VISIBLE_DEVICES": "3,5"}, Gpus(8, 0))
    Visible(variable='CUDA_VISIBLE_DEVICES', names=('3', '5'))
    """
    number, variables = (gpus.num_nvidia, NVIDIA) if gpus.num_nvidia else (gpus.num_amd, AMD)
    given = next((name for name in variables if name in environment), None)
    if given is None:
        names = tuple(str(index) for index in range(number))
        return Visible(variables[0], names) if names else None
    names = _names_of(environment[given])
    return Visible(given, names) if number and names else None


def _names_of(text: str) -> tuple[str, ...]:
    """Return the names in a list of GPUs, which ends before the first empty or negative one."""
    names: list[str] = []
    for name in text.split(","):
        if not name.strip() or name.strip().startswith("-"):
            break
        names.append(name.strip())
    return tuple(dict.fromkeys(names))


def most_workers(visible: Visible, bytes_each: Sequence[int]) -> int | None:
    """Return how many workers fit into the memory of the visible GPUs, None if the memory is unknown.

    Each GPU holds a worker at least; a slice of a GPU (MIG) holds one. The smallest GPU counts for all,
    because a variable may number them in another order.

    >>> most_workers(Visible("CUDA_VISIBLE_DEVICES", ("0", "1")), (80 * 2**30, 80 * 2**30))
    8
    """
    if not bytes_each:
        return None
    slices = sum(name.startswith("MIG") for name in visible.names)
    return slices + (len(visible.names) - slices) * max(1, min(bytes_each) // WORKER_BYTES)


def worker_number(environment: Mapping[str, str]) -> int | None:
    """Return the number of a worker of pytest-xdist, such as 3 of ``gw3``, or None in another process."""
    found = re.fullmatch(r"gw(\d+)", environment.get("PYTEST_XDIST_WORKER", ""))
    return int(found[1]) if found else None


def told(visible: Visible, num_workers: int) -> str:
    """Return the GPU of each worker in a line.

    >>> told(Visible("HIP_VISIBLE_DEVICES", ("2", "3")), 3)
    'HIP_VISIBLE_DEVICES: gw0 gw2 on 2, gw1 on 3'
    """
    shared = {name: " ".join(_numbers(visible, name, num_workers)) for name in visible.names[:num_workers]}
    return f"{visible.variable}: " + ", ".join(f"{workers} on {name}" for name, workers in shared.items())


def _numbers(visible: Visible, name: str, num_workers: int) -> list[str]:
    return [f"gw{worker}" for worker in range(num_workers) if visible.of(worker) == name]


def gpus_here() -> Gpus:
    """Return the GPUs of this machine, by its device files; does not import torch."""
    nvidia = len([*Path("/dev").glob("nvidia[0-9]*")])
    if nvidia or not Path("/dev/kfd").exists():
        return Gpus(nvidia, 0)
    # A node of ROCm's topology is a GPU if it has compute units; processors have none.
    nodes = Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    amd = sum(bool(re.search(r"^simd_count [1-9]", node.read_text(), re.MULTILINE)) for node in nodes)
    return Gpus(0, amd)


def bytes_here(gpus: Gpus) -> tuple[int, ...]:
    """Return the memory of each GPU of this machine in bytes, () if nobody tells."""
    if not gpus.num_nvidia:
        cards = Path("/sys/class/drm").glob("card*/device/mem_info_vram_total")
        return tuple(int(card.read_text()) for card in cards) if gpus.num_amd else ()
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(line) * 2**20 for line in done.stdout.splitlines() if line.strip().isdigit())
