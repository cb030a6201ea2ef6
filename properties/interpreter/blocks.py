"""Products of blocks and blocks behind one another, as compiled code has them.

The interpreter multiplies fp32 numbers as they are, where a GPU's matrix units take tf32, and leaves the
elements of ``tl.cat`` in their order, which Triton leaves open.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Method = Callable[..., Any]
METHODS = ("create_dot", "create_cat")
"""Methods of the interpreter's builder that are replaced."""
_TF32 = np.uint32(0xFFFFE000)
"""The bits of an fp32 number that matrix units read as tf32."""


def patches(interpreter: Any, before: dict[tuple[Any, str], Method]) -> dict[tuple[Any, str], Method]:
    """Return for an owner and a name of Triton's the method that does so; ``before``: patches to keep."""
    builder = interpreter.InterpreterBuilder
    dot, cat = [before.get((builder, name), getattr(builder, name)) for name in METHODS]
    return {(builder, "create_dot"): _dot(dot, interpreter), (builder, "create_cat"): _cat(cat)}


def truncated(numbers: Any) -> Any:
    """Return fp32 numbers as tf32: with 10 bits behind the first one.

    >>> truncated(np.array([2049.0, 2051.0, 2052.0], dtype=np.float32)).tolist()
    [2048.0, 2050.0, 2052.0]
    """
    return (np.ascontiguousarray(numbers).view(np.uint32) & _TF32).view(np.float32)


def _dot(original: Method, interpreter: Any) -> Method:
    """Multiply fp32 numbers as tf32, unless the kernel asks for more."""
    tf32 = interpreter._ir.INPUT_PRECISION.TF32

    def dot(self: Any, one: Any, other: Any, added: Any, precision: Any, *more: Any) -> Any:
        if precision == tf32 and one.dtype.scalar.is_fp32() and other.dtype.scalar.is_fp32():
            one, other = (type(side)(truncated(side.data), side.dtype) for side in (one, other))
        return original(self, one, other, added, precision, *more)

    return dot


def _cat(original: Method) -> Method:
    """Put two blocks behind one another, and take elements of each in turn."""

    def cat(self: Any, one: Any, other: Any) -> Any:
        behind = original(self, one, other)
        if one.data.shape != other.data.shape:
            return behind
        in_turn = np.stack([one.data, other.data], axis=-1).reshape(behind.data.shape)
        return type(behind)(in_turn, behind.dtype)

    return cat
