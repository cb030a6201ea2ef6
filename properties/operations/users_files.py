"""Tell the user's files from those of Python, of this suite and of foreign packages."""

import inspect
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import FunctionType

_FOREIGN = ("_pytest", "hypothesis", "numpy", "pluggy", "pytest", "torch", "triton")
_OURS = ("cumae.oracle", "cumae.properties")
_SITES = ("site-packages", "dist-packages")


def files_of(function: object) -> set[str]:
    """Return the file that defines a function, a class or an instance, inside any wrappers."""
    try:
        return {inspect.getfile(_defined(function))}
    except (OSError, TypeError):
        return set()


def source_of(function: object) -> tuple[str, int] | None:
    """Return the file and the first line of what defines a function, or None if there is no file."""
    defined = _defined(function)
    try:
        file = inspect.getfile(defined)
        line = defined.__code__.co_firstlineno if isinstance(defined, FunctionType) else 0
        return file, line or inspect.getsourcelines(defined)[1]
    except (OSError, TypeError):
        return None


def _defined(function: object) -> FunctionType | type:
    """Return the function or class inside wrappers, partials and methods, or the class of an instance."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function if isinstance(function, (FunctionType, type)) else type(function)


def is_users(file: str, own: Iterable[str]) -> bool:
    """Whether a file belongs to neither Python, nor this suite, nor packages foreign to the function."""
    if file in own:
        return True
    if file.startswith("<") and file != "<stdin>":
        return False
    if is_ours(file) or is_foreign(file):
        return False
    packages = {_package_of(other) for other in own} - {""}
    installed = _package_of(file)
    return installed in packages if installed else not is_pythons(file)


def is_pythons(file: str) -> bool:
    """Return whether a file is of Python's own library."""
    return file.startswith(os.path.dirname(os.__file__) + os.sep) and not _package_of(file)


def is_foreign(file: str) -> bool:
    """Whether a file belongs to a library that a function may use, such as torch."""
    return any(_in_package(file, name) for name in _FOREIGN)


def is_ours(file: str) -> bool:
    """Whether a file belongs to this suite; its tests count as users' files."""
    tests = os.path.join(_folder("cumae.properties"), "tests") + os.sep
    return any(_in_package(file, name) for name in _OURS) and not file.startswith(tests)


def _in_package(file: str, name: str) -> bool:
    folder = _folder(name)
    return bool(folder) and file.startswith(folder + os.sep)


def _folder(name: str) -> str:
    return os.path.dirname(getattr(sys.modules.get(name), "__file__", None) or "")


def _package_of(file: str) -> str:
    """Return the installed package of a file, "" if there is none."""
    parts = Path(file).parts
    at = max((i for i, part in enumerate(parts) if part in _SITES), default=-1)
    return "" if at < 0 else parts[at + 1]
