"""Functions named on a command line or in a file: ``package.module:name``, ``folder/file.py:name``."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Any


def load_function(target: str) -> Callable[..., Any]:
    """Return the function of ``module:name``, the folder one stands in included.

    Raises ``ValueError`` naming the target and what is wrong with it.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise ValueError(f"target = {target!r}, must be package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = _module(module_name)
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


def _module(name: str) -> Any:
    """Import a module by its name, or by its file as pytest does: its folder is on the path."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    file = Path(name).resolve()
    if not file.is_file():
        raise ImportError(f"no file {name}")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def line_of(error: BaseException, function: Callable[..., Any]) -> str:
    """Return the last line of the function's own file that an error came through, empty if there is none."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    file = getattr(code, "co_filename", None)
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({Path(str(file)).name}:{lines[-1]})" if lines else ""
