"""The kernels that a function can launch: those that its code names, and the code that it names."""

import inspect
import os
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from cumae.properties.results.coverage import KernelCoverage


def kernels_named_by(function: Any, files: set[str]) -> Iterator[KernelCoverage]:
    """Yield a coverage without lines for each kernel that a function names, directly or through others.

    Only global names count, and only functions in its own file and in ``files`` are followed.
    """
    found, todo = set(), [function]
    own = _innermost(function)
    while todo:
        one = todo.pop()
        is_kernel, one = _is_kernel(one), _innermost(one)
        if id(one) in found:
            continue
        found.add(id(one))
        if inspect.isclass(one) and (one is own or one.__module__ == own.__module__):
            todo += [value for value in vars(one).values() if isinstance(value, FunctionType)]
        if not isinstance(one, FunctionType):
            continue
        code = one.__code__
        file = os.path.abspath(code.co_filename)
        if is_kernel and not str(one.__module__).startswith("triton."):
            yield KernelCoverage(file, one.__name__, code.co_firstlineno)
        if one is own or one.__module__ == own.__module__ or file in files:
            todo += [one.__globals__[name] for name in _names(code) if name in one.__globals__]


def _innermost(function: Any) -> Any:
    """Return the Python function inside autotuners, kernels and wrappers."""
    while _is_kernel(function):
        function = function.fn
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def _is_kernel(function: Any) -> bool:
    return any(kind.__name__ == "KernelInterface" for kind in type(function).__mro__)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
