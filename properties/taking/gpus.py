"""Whether this machine has a GPU that may be used."""

import os
from pathlib import Path

_HIDDEN = ("", "-1")


def has_gpu() -> bool:
    """Return whether a GPU can be used, by device files and environment; does not import torch."""
    nvidia = any(Path("/dev").glob("nvidia[0-9]*")) and os.environ.get("CUDA_VISIBLE_DEVICES") not in _HIDDEN
    amd = Path("/dev/kfd").exists() and os.environ.get("HIP_VISIBLE_DEVICES") not in _HIDDEN
    return nvidia or amd
