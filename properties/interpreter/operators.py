"""Operators of blocks by NumPy alone, once the interpreter has shown what it makes of operands of such types.

For operands of two types the interpreter's own operator runs first. If NumPy gives the same bits, NumPy's
answer is taken from then on, with the types that the interpreter gave. Kernels spend much of their time in
these operators, which look at the types of their operands anew each time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Operator = Callable[..., Any]
_BINARY: dict[str, Any] = {
    "__add__": np.add,
    "__sub__": np.subtract,
    "__mul__": np.multiply,
    "__and__": np.bitwise_and,
    "__or__": np.bitwise_or,
    "__lt__": np.less,
    "__le__": np.less_equal,
    "__gt__": np.greater,
    "__ge__": np.greater_equal,
    "__eq__": np.equal,
    "__ne__": np.not_equal,
}
_SWAPPED = {"__radd__": np.add, "__rmul__": np.multiply}
OPERATORS = _BINARY | _SWAPPED
"""NumPy's function for each operator; those with exchanged operands give the same numbers."""
_INTEGERS = ("int32", "int64")
_LEAST, _MOST = -(2**31), 2**31 - 1


class _Known(NamedTuple):
    """How an operator answers operands of two types: by NumPy, with these types, or only as it did before."""

    by_numpy: bool
    kind: Any = None
    handle_dtype: Any = None


_known: dict[tuple[Any, ...], _Known] = {}


def by_numpy(name: str, original: Operator) -> Operator:
    """Return an operator of blocks that answers as the original, by NumPy where that is known to be right."""
    function = OPERATORS[name]

    def operator(self: Any, other: Any) -> Any:
        here = self.handle.data
        key: tuple[Any, ...]
        if type(other) is int:
            if not _LEAST <= other <= _MOST:
                return original(self, other)
            there, key = other, (name, self.type.name, here.dtype, int)
        else:
            handle = getattr(other, "handle", None)
            if handle is None:
                return original(self, other)
            there = handle.data
            key = name, self.type.name, here.dtype, other.type.name, there.dtype
        known = _known.get(key)
        if known is None:
            answer = original(self, other)
            _known[key] = _learned(name, self, other, answer)
            return answer
        if not known.by_numpy:
            return original(self, other)
        data = function(here, _bytes(self, there) if self.dtype.is_ptr() else there)
        if not data.shape:
            return original(self, other)
        return type(self)(type(self.handle)(data, known.handle_dtype), known.kind)

    return operator


def _bytes(pointer: Any, offset: Any) -> Any:
    """Return the bytes of an offset in elements."""
    width = max(1, pointer.dtype.element_ty.primitive_bitwidth // 8)
    return np.uint64(width) * np.asarray(offset).astype(np.uint64)


def _learned(name: str, self: Any, other: Any, answer: Any) -> _Known:
    """Return whether NumPy gives the answer; tried for integers, conditions and pointers with offsets."""
    dtypes = [str(self.dtype)] + ([] if type(other) is int else [str(other.dtype)])
    here, there = self.handle.data, other if type(other) is int else other.handle.data
    if self.dtype.is_ptr():
        is_tried = name == "__add__" and all(dtype in _INTEGERS for dtype in dtypes[1:])
        there = _bytes(self, there)
    elif dtypes == ["int1", "int1"]:
        is_tried = name in ("__and__", "__or__")  # other operators take conditions as numbers of one bit
    else:
        is_tried = all(dtype in _INTEGERS for dtype in dtypes)
    if not is_tried:
        return _Known(False)
    data, was = OPERATORS[name](here, there), answer.handle.data
    if data.dtype != was.dtype or data.shape != was.shape or not np.array_equal(data, was):
        return _Known(False)
    return _Known(True, answer.type, answer.handle.dtype)
