"""Functions named on a command line or in a file: ``package.module:function``."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load_function(target: str) -> Callable[..., Any]:
    """Return the function of ``module:name``, the folder one stands in included.

    Raises ``ValueError`` naming the target and what is wrong with it.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ValueError(f"target = {target!r}, must be package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"target = {target!r}, must be importable: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"target = {target!r}, must exist: {module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"target = {target!r}, must be a function")
    function: Callable[..., Any] = found
    return function
