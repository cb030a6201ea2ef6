"""Load functions named on a command line or in a file: ``package.module:name``, ``folder/file.py:name``.

A file is imported, with its package, if all modules that its import needs are there. Otherwise, and in a
wheel, the function is taken from it: no engine need be installed to test a kernel in its checkout.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cumae.properties.operations.tracebacks import told_of
from cumae.properties.taking.importable import missing_import
from cumae.properties.taking.take import take


class Interruption(BaseException):
    """End a call or an import for the suite's own reason: it never counts as the function's error."""


def load_function(target: str) -> Callable[..., Any]:
    """Return the function of ``module:name`` or ``file.py:name``; modules of the current folder too.

    Raises ``ValueError`` naming the target and its fault.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise ValueError(f"target = {target!r}, must be package.module:function or file.py:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if because := taken_because(target):
        return _taken(target, because)
    try:
        found = _module(module_name)
    except (KeyboardInterrupt, Interruption):
        raise
    except BaseException as error:  # a module may also skip itself, or exit
        told = told_of(error).removeprefix("ModuleNotFoundError: ").removeprefix("ImportError: ")
        raise ValueError(f"target = {target!r}, must be importable: {told}") from error
    if not re.fullmatch(r"[\w.]+", name):
        rule = "be named in its module and given as --target: it was made inside another function or call"
        raise ValueError(f"target = {target!r}, must {rule}")
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"target = {target!r}, must exist: {module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"target = {target!r}, must be a function")
    function: Callable[..., Any] = found
    return function


def taken_because(target: str) -> str:
    """Return why the file of a target is not imported, "" for one that is imported."""
    name = target.rpartition(":")[0]
    if not name.endswith(".py"):
        return ""
    file = Path(name).expanduser().resolve()
    if any(folder.suffix == ".whl" and folder.is_file() for folder in file.parents):
        return "it is in a wheel"
    missing = missing_import(file, (_root_of(file), Path.cwd())) if file.is_file() else ""
    return f"{missing} is not installed" if missing else ""


def _taken(target: str, because: str) -> Callable[..., Any]:
    """Return the function of a file that is not imported."""
    file, _, name = target.rpartition(":")
    try:
        found = take(file, name)
    except ValueError as error:
        raise ValueError(
            f"target = {target!r}, must be a function taken from its file, as {because}: {error}"
        ) from error
    if not callable(found):
        raise ValueError(f"target = {target!r}, must be a function")
    function: Callable[..., Any] = found
    return function


def _module(name: str) -> Any:
    """Import a module by its name, or by its file with its package's folder on the path, as pytest does.

    A file with relative imports but no package is imported as part of a package below this folder.
    """
    if not name.endswith(".py"):
        return importlib.import_module(name)
    file = Path(name).resolve()
    if not file.is_file():
        raise ImportError(f"no file {name}")
    if (file.parent / "__init__.py").is_file():
        return _in_package(file, _root_of(file))
    try:
        return _alone(file)
    except ImportError as error:
        here = Path.cwd()
        if "relative import" not in str(error) or file.parent == here or not file.is_relative_to(here):
            raise
    return _in_package(file, here)


def _root_of(file: Path) -> Path:
    """Return the folder that holds the outermost package of a file."""
    return next(folder for folder in file.parents if not (folder / "__init__.py").is_file())


def _in_package(file: Path, root: Path) -> Any:
    if sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    module = importlib.import_module(name)
    found = getattr(module, "__file__", None)
    if found is None or Path(found).resolve() != file:
        raise ImportError(f"{name} is {found}, not {file}")
    return module


def _alone(file: Path) -> Any:
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
