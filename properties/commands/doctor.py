"""``cumae doctor``: report what this machine can run, and why the rest fails."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import click

from cumae.properties.commands.progress import telling
from cumae.properties.running.device import has_gpu
from cumae.properties.running.run_probe import fault_of

NEEDED = {
    "torch": "pip install torch (with --index-url https://download.pytorch.org/whl/cpu without a GPU)",
    "triton": "pip install 'triton>=3.6'",
    "numpy": "pip install numpy",
    "hypothesis": "pip install 'hypothesis>=6.150'",
}
INTERPRETER_CURE = "the interpreter needs Triton >= 3.7, or NumPy < 2.4 with Triton 3.6"
HOOKS_CURE = "use Triton 3.6 to 3.9"


def doctor() -> int:
    """Try tiny kernels and report what this machine can run. Exit status 2 if nothing can run."""
    _line("Python", platform.python_version(), sys.version_info < (3, 10) and "install Python >= 3.10")
    missing = [name for name in NEEDED if not _version(name)]
    for name, cure in NEEDED.items():
        _line(name, _version(name) or "missing", name in missing and cure)
    if missing:
        click.echo(f"nothing can run: {', '.join(missing)} missing")
        return 2
    interpreter = _tried("interpreter")
    _line("interpreter", interpreter or "a tiny kernel ran on the CPU", interpreter and INTERPRETER_CURE)
    hooks = _tried("hooks") if not interpreter else "needs the interpreter"
    _line("memory hooks", hooks or "injected faults are detected", hooks and HOOKS_CURE)
    gpu = _tried("gpu") if has_gpu() else "none is visible"
    cure = "run on the CPU, or install a driver and a torch build for it"
    if _hidden():
        cure = f"{_hidden()} hides it"
    _line("GPU", gpu or _gpu_name(), gpu and cure)
    compiles = _tried("compiles")
    _line("compiler", compiles or "compiles ahead of time for sm_90", compiles and "reinstall triton")
    able = [
        name
        for name, fault in (("the CPU (Triton's interpreter)", interpreter), ("the GPU", gpu))
        if not fault
    ]
    click.echo(f"kernels run on {' and '.join(able)}" if able else "nothing can run: neither CPU nor GPU")
    return 0 if able else 2


def _tried(probe: str) -> str:
    """Return the fault of a probe, which takes seconds."""
    with telling(f"trying: {probe}"):
        return fault_of(probe)


def _line(name: str, found: str, cure: str | bool) -> None:
    """Print one line: ok, or the remedy."""
    mark = f"{found}: {cure}" if cure else f"ok, {found}"
    click.echo(f"{name:13} {mark}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _hidden() -> str:
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    return next((f"{n}={os.environ[n]!r}" for n in names if os.environ.get(n) in ("", "-1")), "")


def _gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "a tiny kernel ran"
