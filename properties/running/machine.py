"""What a figure was measured on."""

import platform
from importlib.metadata import PackageNotFoundError, version


def machine() -> dict[str, str]:
    """Return device, Python and the versions of what runs the kernels."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, Triton's interpreter"
    found = {"device": device, "python": platform.python_version()}
    for name in ("torch", "triton", "hypothesis", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found
