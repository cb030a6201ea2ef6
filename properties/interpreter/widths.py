"""A kernel's arguments as a launch makes them: annotated widths, and constants of those that are 1."""

import inspect
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

_SCALARS = {"i1", "u1", "fp16", "fp32", "fp64"}
_SCALARS |= {f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)}


def with_widths(rewritten: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a launch with annotated numbers in their annotated widths.

    As in the compiler, only the annotations of the launched kernel count, not those of functions that
    it calls. A default of an annotated parameter becomes an argument. Raises ``OverflowError`` for a
    number that does not fit its width, as a launch does.
    """
    all_names, annotated, all_defaults = _parameters(rewritten)
    names = all_names[: len(args)]
    defaults = {
        name: value for name, value in all_defaults.items() if name not in names and name not in kwargs
    }
    held = [_held(value, annotated.get(name)) for name, value in zip(names, args, strict=True)]
    return held, {name: _held(value, annotated.get(name)) for name, value in (kwargs | defaults).items()}


def constants(
    rewritten: Any, args: list[Any], kwargs: dict[str, Any], left: Collection[Any]
) -> Iterator[str]:
    """Yield the names of integers that are 1: these are constants of a compiled kernel.

    Annotated ones are not, nor those in ``left``, the names and numbers of ``do_not_specialize``.
    """
    defaults = _unannotated(rewritten)
    given = kwargs | dict(zip(defaults.every, args, strict=False))
    for name, default in defaults.of.items():
        value = given.get(name, default)
        if type(value) is int and value == 1 and name not in left and defaults.every.index(name) not in left:
            yield name


class _Unannotated(NamedTuple):
    """The names of a kernel's parameters, and the defaults of those that have no annotated width."""

    every: tuple[str, ...]
    of: dict[str, Any]


@lru_cache(maxsize=256)
def _unannotated(rewritten: Callable[..., Any]) -> _Unannotated:
    names, annotated, _ = _parameters(rewritten)
    parameters = inspect.signature(_original(rewritten)).parameters
    return _Unannotated(names, {name: parameters[name].default for name in names if name not in annotated})


@lru_cache(maxsize=256)
def _parameters(rewritten: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, str], dict[str, Any]]:
    """Return the names of a kernel's parameters, the annotated widths, and the defaults of those."""
    parameters = inspect.signature(_original(rewritten)).parameters
    annotated = {name: scalar for name, p in parameters.items() if (scalar := _annotation(p)) in _SCALARS}
    given = {name: parameters[name].default for name in annotated}
    defaults = {name: value for name, value in given.items() if value is not inspect.Parameter.empty}
    return tuple(parameters), annotated, defaults


def _original(rewritten: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel before rewriting: the interpreter's rewriter turns annotations into text."""
    from triton.runtime.interpreter import InterpretedFunction

    pairs = InterpretedFunction.rewritten_fn.items()
    return next((kernel for kernel, other in pairs if other is rewritten), rewritten)


def _annotation(parameter: inspect.Parameter) -> str:
    from triton.runtime.jit import KernelParam

    scalar: str = KernelParam(0, parameter, False, False).annotation_type
    return scalar


def _held(value: Any, scalar: str | None) -> Any:
    if scalar is None or not isinstance(value, (bool, int, float)):
        return value
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    dtype = tl.str_to_ty(scalar, None)
    return tl.tensor(TensorHandle(np.array([value], dtype=_get_np_dtype(dtype)), dtype), dtype)
