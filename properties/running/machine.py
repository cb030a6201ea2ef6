"""The machine of a measurement."""

import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cumae.properties.running.device import Device, current


def machine() -> dict[str, str]:
    """Return the device that kernels run on, and the versions of Python and of the libraries."""
    found = {"device": device_name(current()), "python": platform.python_version()}
    for name in ("torch", "triton", "hypothesis", "numpy"):
        found[name] = _version(name)
    return found


def measured(command: str, **found: Any) -> dict[str, Any]:
    """Return the record of what a command measured: the machine, the command and the figures."""
    return {**machine(), "command": command, **found}


def versions(device: str) -> str:
    """Return the versions of cumae, torch and triton, and the device, as text."""
    return ", ".join([*(f"{name} {_version(name)}" for name in ("cumae", "torch", "triton")), device])


def device_name(device: Device) -> str:
    """Return the name of a device that kernels run on."""
    if device == "cpu":
        return "CPU, Triton's interpreter"
    import torch

    return torch.cuda.get_device_name()


@lru_cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
