"""Triton under the names of other modules: with a stub of it, a kernel would be a plain function."""

import builtins
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from cumae.properties.taking.imports import top

TRITON = {"triton": "triton", "tl": "triton.language"}
"""Names that engines import from modules of their own, and the modules of Triton behind them."""


def named_so(name: str) -> ModuleType | None:
    """Return the module of Triton that engines call so, None for another name."""
    return import_module(TRITON[name]) if name in TRITON else None


def of_fork(name: str, names: Sequence[str]) -> ModuleType | None:
    """Return what Triton gives for an import of ``names`` from a module of a fork, ``x_triton``.

    None if the module is of no fork, or if Triton lacks it or a name.
    """
    if not top(name).endswith("_triton"):
        return None
    real = name.replace(top(name), "triton", 1)
    try:
        found: ModuleType = builtins.__import__(real, None, None, tuple(names))
    except ModuleNotFoundError:
        return None
    return found if all(hasattr(found, one) for one in names) else None
