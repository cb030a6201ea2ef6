"""The machine of a measurement."""

import platform
from importlib.metadata import PackageNotFoundError, version

from cumae.properties.running.device import current


def machine() -> dict[str, str]:
    """Return the device that kernels run on, and the versions of Python and of the libraries."""
    import torch

    device = torch.cuda.get_device_name() if current() == "cuda" else "CPU, Triton's interpreter"
    found = {"device": device, "python": platform.python_version()}
    for name in ("torch", "triton", "hypothesis", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found
