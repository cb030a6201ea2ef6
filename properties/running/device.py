"""The device that kernels run on: a GPU if there is one, else the CPU through Triton's interpreter."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from cumae.oracle.model.rules import require, require_choice
from cumae.properties.taking.gpus import has_gpu as has_gpu

Device = Literal["cpu", "cuda"]
DEVICES = ("auto", "cpu", "cuda")
OBJECTS = 10_000
"""New objects after which a search collects garbage."""


def prepare(wanted: str) -> Device:
    """Return the device of this process and set Triton's mode; call before triton is imported.

    ``auto`` takes a GPU if there is one. On the CPU it sets ``TRITON_INTERPRET=1``. Raises
    ``ValueError`` for another name, for ``cuda`` without a GPU, and if triton was imported in the
    other mode.
    """
    require_choice("device", wanted, DEVICES)
    if wanted == "auto":
        wanted = "cuda" if has_gpu() else "cpu"
    if wanted == "cuda":
        require(has_gpu(), "device", wanted, "be cpu: no GPU can be seen here")
        require(not interpreting(), "device", wanted, "be cpu while TRITON_INTERPRET is 1")
        return "cuda"
    require(
        interpreting() or "triton" not in sys.modules,
        "device",
        wanted,
        "be chosen before triton is imported (set TRITON_INTERPRET=1)",
    )
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return "cpu"


def can_begin_early() -> bool:
    """Return whether kernels may be launched with ``launch_pdl``, to begin before the one before has ended.

    In the interpreter, and on NVIDIA's GPUs from Hopper on.
    """
    import torch

    if interpreting():
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability()[0] >= 9


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: on tensors this small, more threads cost far more than they save."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage less often: a case of a search leaves none behind, and a collection takes time."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def current() -> Device:
    """Return the device on which a kernel launched now would run."""
    return "cuda" if has_gpu() and not interpreting() else "cpu"


def interpreting() -> bool:
    """Return whether Triton interprets kernels here: it is told to, and was not imported to compile."""
    return os.environ.get("TRITON_INTERPRET") == "1" and imported_as() != "JITFunction"


def imported_as() -> str:
    """Return the class of Triton's own functions, fixed at its import; empty before the import."""
    library = sys.modules.get("triton.language.standard")
    kinds = (type(value).__name__ for value in vars(library).values()) if library is not None else ()
    return next((kind for kind in kinds if kind in ("JITFunction", "InterpretedFunction")), "")
