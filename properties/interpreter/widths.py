"""Annotated widths of a kernel's arguments for the interpreter, which ignores annotations."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

_SCALARS = {"i1", "u1", "fp16", "fp32", "fp64"}
_SCALARS |= {f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)}


def with_widths(rewritten: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a launch with annotated numbers in their annotated widths.

    As in the compiler, only the annotations of the launched kernel count, not those of functions that
    it calls. A default of an annotated parameter becomes an argument. Raises ``OverflowError`` for a
    number that does not fit its width, as a launch does.
    """
    kernel = _original(rewritten)
    parameters = inspect.signature(kernel).parameters
    annotated = {name: scalar for name, p in parameters.items() if (scalar := _annotation(p)) in _SCALARS}
    names = list(parameters)[: len(args)]
    defaults = {
        name: parameters[name].default
        for name in annotated
        if name not in names
        and name not in kwargs
        and parameters[name].default is not inspect.Parameter.empty
    }
    held = [_held(value, annotated.get(name)) for name, value in zip(names, args, strict=True)]
    return held, {name: _held(value, annotated.get(name)) for name, value in (kwargs | defaults).items()}


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
