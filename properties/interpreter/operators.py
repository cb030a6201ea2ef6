"""Operators, functions and casts of blocks by NumPy alone, once the interpreter has shown what it answers.

For operands of some types the interpreter's own operator runs first. If NumPy gives the same bits, NumPy's
answer is taken from then on, with the types that the interpreter gave. Kernels spend much of their time in
these operators, which look at the types of their operands anew each time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Operator = Callable[..., Any]
_BINARY: dict[str, Any] = {
    "__add__": np.add,
    "__sub__": np.subtract,
    "__mul__": np.multiply,
    "__and__": np.bitwise_and,
    "__or__": np.bitwise_or,
    "__xor__": np.bitwise_xor,
    "__lshift__": np.left_shift,
    "__rshift__": np.right_shift,
    "__lt__": np.less,
    "__le__": np.less_equal,
    "__gt__": np.greater,
    "__ge__": np.greater_equal,
    "__eq__": np.equal,
    "__ne__": np.not_equal,
}
_SWAPPED = {"__radd__": np.add, "__rmul__": np.multiply}
_TOWARDS_ZERO: dict[str, Any] = {"__floordiv__": np.floor_divide, "__mod__": np.remainder}
"""Of numbers that are not negative: for others NumPy rounds down, and kernels round towards zero."""
OPERATORS = _BINARY | _SWAPPED | _TOWARDS_ZERO
"""NumPy's function for each operator; those with exchanged operands give the same numbers."""
FUNCTIONS: dict[str, Any] = {"minimum": np.minimum, "maximum": np.maximum, "where": np.where}
"""NumPy's function for functions of ``triton.language``."""
_INTEGERS = ("int32", "int64")
_LEAST, _MOST = -(2**31), 2**31 - 1


class _Known(NamedTuple):
    """How an operator answers operands of some types: by NumPy, with these types, or as it did before."""

    by_numpy: bool
    kind: Any = None
    handle_dtype: Any = None
    dtype: Any = None


_known: dict[tuple[Any, ...], _Known] = {}


def by_numpy(name: str, original: Operator) -> Operator:
    """Return an operator of blocks that answers as the original, by NumPy where that is known to be right."""
    function, is_division = OPERATORS[name], name in _TOWARDS_ZERO

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
        if is_division and (np.min(there) <= 0 or here.min() < 0):
            return original(self, other)
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


def function_by_numpy(name: str, original: Operator) -> Operator:
    """Return a function of blocks that answers as the original, by NumPy where that is known to be right.

    Its operands are those of ``FUNCTIONS``, tensors of integers or conditions and numbers of 32 bits.
    """
    function = FUNCTIONS[name]

    def quick(*operands: Any, **named: Any) -> Any:
        key: list[Any] = [name]
        for one in operands:
            if type(one) is int and _LEAST <= one <= _MOST:
                key.append(int)
                continue
            handle = getattr(one, "handle", None)
            if handle is None:
                return original(*operands, **named)
            key += one.type.name, handle.data.dtype
        if named or type(operands[0]) is int:
            return original(*operands, **named)
        known = _known.get(tuple(key))
        if known is not None and known.by_numpy:
            data = function(*[known.dtype(one) if type(one) is int else one.handle.data for one in operands])
            return type(operands[0])(type(operands[0].handle)(data, known.handle_dtype), known.kind)
        answer = original(*operands)
        if known is None:
            _known[tuple(key)] = _learned_function(function, operands, answer)
        return answer

    return quick


def cast_by_numpy(original: Operator) -> Operator:
    """Return the method ``to`` of blocks, by NumPy from integers and conditions to integers."""

    def cast(self: Any, *dtypes: Any, **named: Any) -> Any:
        wanted = getattr(dtypes[0], "value", dtypes[0]) if len(dtypes) == 1 and not named else None
        kind = getattr(wanted, "name", None)
        if kind is None:
            return original(self, *dtypes, **named)
        here = self.handle.data
        key = "to", self.type.name, here.dtype, kind
        known = _known.get(key)
        if known is not None and known.by_numpy:
            data = here.astype(known.dtype)
            return type(self)(type(self.handle)(data, known.handle_dtype), known.kind)
        answer = original(self, *dtypes)
        if known is None:
            _known[key] = _learned_cast(self, answer)
        return answer

    return cast


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
    return _same(OPERATORS[name](here, there), answer)


def _learned_function(function: Any, operands: Sequence[Any], answer: Any) -> _Known:
    """Return whether NumPy gives the answer: tried for integers, and for choices of values of one type."""
    dtypes = {str(one.dtype) for one in operands if type(one) is not int}
    if function is np.where:
        is_choice = str(operands[0].dtype) == "int1"
        dtypes = {"int" if type(one) is int else str(one.dtype) for one in operands[1:]}
        if not is_choice or (len(dtypes) > 1 and not dtypes <= {"int", *_INTEGERS}):
            return _Known(False)
    elif not dtypes <= {*_INTEGERS}:
        return _Known(False)
    dtype = answer.handle.data.dtype.type
    data = function(*[dtype(one) if type(one) is int else one.handle.data for one in operands])
    return _same(data, answer)


def _learned_cast(given: Any, answer: Any) -> _Known:
    """Return whether NumPy gives the answer of a cast; tried for integers and from conditions."""
    if not (given.dtype.is_int() and answer.dtype.is_int()):
        return _Known(False)
    return _same(given.handle.data.astype(answer.handle.data.dtype), answer)


def _same(data: Any, answer: Any) -> _Known:
    """Return whether NumPy's answer has the type and the bits of the interpreter's."""
    was = answer.handle.data
    if data.dtype != was.dtype or data.shape != was.shape or data.tobytes() != was.tobytes():
        return _Known(False)
    return _Known(True, answer.type, answer.handle.dtype, was.dtype.type)
