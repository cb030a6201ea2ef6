"""The machine of a measurement."""

import platform
from importlib.metadata import PackageNotFoundError, version


def machine() -> dict[str, str]:
    """Return the device and the versions of Python, torch, Triton, Hypothesis and NumPy."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, Triton's interpreter"
    found = {"device": device, "python": platform.python_version()}
    for name in ("torch", "triton", "hypothesis", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found
