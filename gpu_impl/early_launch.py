"""Launches that begin while the kernel before them ends, on NVIDIA's GPUs from Hopper on."""

from functools import cache

import torch
import triton
import triton.language as tl


@triton.jit
def wait_for_kernel_before(BEGINS_EARLY: tl.constexpr) -> None:
    """Wait for the end of the kernel before this one, and let the one behind it begin.

    It stands first in a kernel: before, nothing is read or written.
    """
    if BEGINS_EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@cache
def early(device: torch.device) -> dict[str, bool]:
    """Return the arguments by which a kernel that waits begins early, where the device can."""
    is_compiled = isinstance(wait_for_kernel_before, triton.runtime.JITFunction)
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    if is_compiled and is_nvidia and torch.cuda.get_device_capability(device)[0] >= 9:
        return {"BEGINS_EARLY": True, "launch_pdl": True}
    return {"BEGINS_EARLY": False}
