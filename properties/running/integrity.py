"""Protection of the suite from the function under test: oracles closed while it runs, replaced code restored.

A function shares its process with the suite and could reach all of it. This stops the attacks that have been
seen: calling an oracle, and replacing an oracle, a check, or a function that they use. It cannot stop a
function that rewrites this module as well, or the data of one call.
"""

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isgeneratorfunction
from operator import attrgetter, is_
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch

_OURS = ("cumae.oracle", "cumae.properties")
_NOT_OURS = "cumae.properties.tests"
_BUILTINS = ("all", "any", "int", "isinstance", "len", "list", "max", "min", "next", "range", "zip")
_TENSOR = ("as_strided", "contiguous", "copy_", "cpu", "detach", "numpy", "reshape", "view")
_TORCH = ("Tensor", "empty", "from_numpy", "full")


def _shut(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the function under test called an oracle")


def _shut_iterator(*args: Any, **kwargs: Any) -> Iterator[Any]:
    # The code runs with the globals of an oracle, and so calls nothing of this module.
    yield from ()
    raise RuntimeError("the function under test called an oracle")


def _shut_code(function: FunctionType) -> CodeType:
    """Return code that raises in place of a function's: in place of a generator's that of a generator."""
    return (_shut_iterator if isgeneratorfunction(function) else _shut).__code__


@contextmanager
def oracles_shut() -> Iterator[None]:
    """Make every call of a function in ``cumae.oracle`` raise ``RuntimeError`` within, also if they nest."""
    if _SUITE.oracles and _SUITE.oracles[0].__code__ is _SUITE.shut[0]:
        yield
        return
    _SUITE.look()
    functions, shut = tuple(_SUITE.oracles), tuple(_SUITE.shut)
    codes = [function.__code__ for function in functions]
    for function, raising in zip(functions, shut, strict=True):
        function.__code__ = raising
    try:
        yield
    finally:
        for function, code, raising in zip(functions, codes, shut, strict=True):
            if function.__code__ is raising:
                function.__code__ = code


def tampering() -> str:
    """Restore replaced code of the suite; return the first replaced name, empty if there is none.

    The first call records the imported modules: make it before the module of a function is imported.
    """
    _SUITE.look()
    return _SUITE.restored()


class _Suite:
    """The functions, classes and tables of the suite as they were first seen."""

    def __init__(self) -> None:
        self.oracles: list[FunctionType] = []
        self.shut: list[CodeType] = []
        self._num_modules = 0
        self._functions: list[FunctionType] = []
        self._codes: list[CodeType] = []
        self._held: dict[int, _Held] = {}
        self._hold("builtins", vars(builtins), _BUILTINS)
        self._hold("numpy", vars(np), _code_in(vars(np)))
        self._hold("torch", vars(torch), _TORCH)
        self._hold("torch.Tensor", torch.Tensor, _TENSOR)

    def look(self) -> None:
        """Record the modules of the suite that were imported since the last look."""
        if len(sys.modules) == self._num_modules:
            return
        self._num_modules = len(sys.modules)
        for name, module in sorted(sys.modules.items()):
            if (
                name.startswith(_OURS)
                and not name.startswith(_NOT_OURS)
                and id(vars(module)) not in self._held
            ):
                self._take(name, vars(module))

    def _take(self, module: str, names: dict[str, Any]) -> None:
        self._hold(module, names, _code_in(names))
        for name, value in names.items():
            if isinstance(value, dict) and not name.startswith("_"):
                self._hold(f"{module}.{name}", value, value)
            elif getattr(value, "__module__", None) == module:
                self._code(module, value)
                if isinstance(value, type):
                    self._hold(f"{module}.{name}", value, _code_in(vars(value)))
                    for method in vars(value).values():
                        self._code(module, method)

    def _code(self, module: str, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._functions.append(value)
            self._codes.append(value.__code__)
            # The model of cases holds no answer, and is called too often to be shut in each call.
            theirs = value.__module__ or ""
            is_oracle = theirs.startswith("cumae.oracle.") and not theirs.startswith("cumae.oracle.model.")
            if is_oracle and not value.__code__.co_freevars:
                self.oracles.append(value)
                self.shut.append(_shut_code(value))

    def _hold(self, name: str, owner: Any, keys: Iterable[str]) -> None:
        get = owner.get if isinstance(owner, dict) else vars(owner).get
        names = tuple(keys)
        self._held.setdefault(id(owner), _Held(name, owner, get, names, tuple(map(get, names))))

    def restored(self) -> str:
        """Restore everything; return the name of the first thing that was replaced."""
        found = ""
        for held in self._held.values():
            if not all(map(is_, map(held.get, held.keys), held.values)):
                name = held.restore()
                found = found or name
        if not all(map(is_, map(attrgetter("__code__"), self._functions), self._codes)):
            for function, code in zip(self._functions, self._codes, strict=True):
                if function.__code__ is not code:
                    found = found or f"{function.__module__}.{function.__qualname__}"
                    function.__code__ = code
        return found


class _Held(NamedTuple):
    """The recorded values of a module, a class or a table under some of its names."""

    name: str
    owner: Any
    get: Callable[[str], Any]
    keys: tuple[str, ...]
    values: tuple[Any, ...]

    def restore(self) -> str:
        """Restore replaced values; return the name of the first."""
        found = ""
        for key, value in zip(self.keys, self.values, strict=True):
            if self.get(key) is not value:
                found = found or f"{self.name}.{key}"
                if isinstance(self.owner, dict):
                    self.owner[key] = value
                else:
                    setattr(self.owner, key, value)
        return found


def _code_in(names: Mapping[str, Any]) -> list[str]:
    """Return the names of functions and classes; other values may change."""
    return [name for name, value in names.items() if callable(value) and not name.startswith("__")]


_SUITE = _Suite()
