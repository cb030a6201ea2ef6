"""The kernels that a function can launch: those that its code names, and the code that it names."""

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from cumae.properties.results.coverage import KernelCoverage


def kernels_named_by(function: Any) -> Iterator[KernelCoverage]:
    """Yield a coverage without lines for each kernel that a function names, directly or through others.

    Only functions of the same package are followed, and only global names. Triton's own device functions
    are left out.
    """
    home = function.__module__.partition(".")[0]
    found, todo = set(), [function]
    while todo:
        one = todo.pop()
        is_kernel = any(kind.__name__ == "KernelInterface" for kind in type(one).__mro__)
        one = _innermost(one)
        if id(one) in found or getattr(one, "__module__", "").partition(".")[0] not in (home, "__main__"):
            continue
        found.add(id(one))
        if inspect.isclass(one):
            todo += [value for value in vars(one).values() if isinstance(value, FunctionType)]
        if not isinstance(one, FunctionType):
            continue
        code = one.__code__
        if is_kernel:
            yield KernelCoverage(code.co_filename, one.__name__, code.co_firstlineno)
        todo += [one.__globals__[name] for name in _names(code) if name in one.__globals__]


def _innermost(function: Any) -> Any:
    """Return the Python function inside autotuners, kernels and wrappers."""
    while not isinstance(function, FunctionType) and hasattr(function, "fn"):
        function = function.fn
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
