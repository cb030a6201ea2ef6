"""Floating-point numbers of 16 and 8 bits, and integers of one bit, as compiled code has them.

The interpreter holds bf16 numbers as their bits, and adds, compares and converts these as integers. It drops
what rounding to bf16 carries, and loses it in a conversion to fp8. Here bf16 operands become fp32 and
results are rounded, and numbers become fp8 as by ``cvt.rn.satfinite`` (PTX ISA): to nearest even, and what is
too large to the largest number. Releases before 3.9 add conditions by "or", and have no ones for unsigned
numbers; those before 3.8 take NaN for the lesser and the greater of two numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Data = np.ndarray[Any, np.dtype[Any]]
Method = Callable[..., Any]
_FP8 = {
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
_OPERATORS = ("binary_op", "unary_op", "ternary_op", "create_fma")
METHODS = (*_OPERATORS, "cast_impl", "create_fp_to_fp", "create_maxnumf", "create_minnumf", "create_clampf")
"""Methods of the interpreter's builder that are replaced."""
_NAN = 0x7FFF
"""The bits of the NaN that a GPU writes."""


def patches(interpreter: Any) -> dict[tuple[Any, str], Method]:
    """Return for an owner and a name of Triton's the method that calculates with such numbers."""
    builder = interpreter.InterpreterBuilder
    if not hasattr(builder, "get_bf16"):  # before Triton 3.9
        builder.get_bf16 = lambda self, value: interpreter.TensorHandle(
            rounded([value]), interpreter.tl.bfloat16
        )
    found = {(builder, name): _operator(getattr(builder, name), interpreter.tl) for name in _OPERATORS}
    yes = interpreter.TensorHandle(np.array([True]), interpreter.tl.int1)
    if builder.binary_op(interpreter.interpreter_builder, yes, yes, np.add).data.any():
        found[builder, "binary_op"] = _of_one_bit(found[builder, "binary_op"], interpreter.tl)
    found[builder, "get_all_ones_value"] = _ones(builder.get_all_ones_value, interpreter)
    found[builder, "cast_impl"] = _cast(builder.cast_impl, interpreter.tl)
    found[builder, "create_fp_to_fp"] = _conversion(builder.create_fp_to_fp, interpreter)
    found[builder, "create_maxnumf"] = _of_numbers(np.fmax)
    found[builder, "create_minnumf"] = _of_numbers(np.fmin)
    found[builder, "create_clampf"] = _clamp(builder.create_clampf, interpreter)
    return found


def _of_numbers(extreme: Any) -> Method:
    """Return the method that chooses one of two numbers, which is never NaN beside a number."""

    def choose(self: Any, one: Any, other: Any) -> Any:
        return self.binary_op(one, other, extreme)

    return choose


def _clamp(original: Method, interpreter: Any) -> Method:
    def clamp(self: Any, given: Any, low: Any, high: Any, nan: Any) -> Any:
        if nan != interpreter._ir.PROPAGATE_NAN.NONE:
            return original(self, given, low, high, nan)
        return self.binary_op(self.binary_op(given, low, np.fmax), high, np.fmin)

    return clamp


def widened(bits: Data) -> Data:
    """Return the fp32 numbers of bf16 numbers given as uint16 bits."""
    return np.asarray((bits.astype(np.uint32) << np.uint32(16)).view(np.float32))


def rounded(numbers: Data | list[float]) -> Data:
    """Return the uint16 bits of the nearest bf16 numbers, of the even one of two.

    >>> rounded(np.array([1.0, 1.00390625, 1.01171875, -np.inf], dtype=np.float32)).tolist()
    [16256, 16256, 16258, 65408]
    """
    single = np.asarray(numbers, dtype=np.float32)
    bits = single.view(np.uint32)
    half = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(single), _NAN, bits + half >> np.uint32(16)).astype(np.uint16)


def saturated(numbers: Data, dtype: torch.dtype) -> Data:
    """Return the bytes of the nearest fp8 numbers, of the largest where a number is larger.

    >>> saturated(np.array([31.1, 1000.0, -0.0], dtype=np.float32), torch.float8_e4m3fn).tolist()
    [96, 126, 128]
    """
    most = torch.finfo(dtype).max
    single = torch.from_numpy(np.array(numbers, dtype=np.float32))
    return np.asarray(single.clamp(-most, most).to(dtype).view(torch.uint8).numpy())


def is_bf16(handle: Any) -> bool:
    """Return whether a handle holds the bits of bf16 numbers; that of a comparison holds conditions."""
    dtype = getattr(handle, "dtype", None)
    return dtype is not None and dtype.scalar.name == "bf16" and handle.data.dtype == np.uint16


def as_fp32(handle: Any, tl: Any) -> Any:
    """Return the handle, with fp32 numbers if it holds those of bf16."""
    return type(handle)(widened(handle.data), tl.float32) if is_bf16(handle) else handle


def _operator(original: Method, tl: Any) -> Method:
    """Calculate in fp32 and round; a choice between numbers takes their bits."""

    def operator(self: Any, *operands: Any) -> Any:
        narrow = next(filter(is_bf16, operands), None)
        if narrow is None or operands[-1] is np.where:
            return original(self, *operands)
        data = original(self, *[as_fp32(one, tl) for one in operands]).data
        return type(narrow)(rounded(data) if data.dtype == np.float32 else data, narrow.dtype)

    return operator


def _of_one_bit(original: Method, tl: Any) -> Method:
    """Calculate with conditions as with integers that wrap."""

    def operator(self: Any, one: Any, other: Any, function: Any) -> Any:
        if one.data.dtype != np.bool_ or other.data.dtype != np.bool_:
            return original(self, one, other, function)
        wide = [type(one)(operand.data.astype(np.int8), tl.int8) for operand in (one, other)]
        return type(one)((original(self, *wide, function).data & 1).astype(np.bool_), one.dtype.scalar)

    return operator


def _ones(original: Method, interpreter: Any) -> Method:
    """Return a number of ones alone, of unsigned types too."""

    def ones(self: Any, kind: Any) -> Any:
        dtype = interpreter._get_np_dtype(kind)
        if dtype.kind != "u":
            return original(self, kind)
        return interpreter.TensorHandle(np.full(1, np.iinfo(dtype).max, dtype=dtype), kind.scalar)

    return ones


def _cast(original: Method, tl: Any) -> Method:
    """Convert numbers from and to bf16, not their bits."""

    def cast(self: Any, source: Any, wanted: Any) -> Any:
        source = as_fp32(source, tl)
        if wanted.scalar.name == "bf16":
            return type(source)(rounded(source.data), wanted.scalar)
        return original(self, source, wanted)

    return cast


def _conversion(original: Method, interpreter: Any) -> Method:
    """Convert between floating-point numbers; roundings other than to nearest even are the interpreter's."""
    tl, nearest = interpreter.tl, (None, interpreter._ir.ROUNDING_MODE.RTNE)

    def convert(self: Any, source: Any, wanted: Any, rounding: Any) -> Any:
        here, there = _FP8.get(source.dtype.scalar.name), _FP8.get(wanted.scalar.name)
        if rounding not in nearest or "fp8e4b15" in (source.dtype.scalar.name, wanted.scalar.name):
            return original(self, source, wanted, rounding)
        if here is not None:
            numbers = torch.from_numpy(np.array(source.data)).view(here).float().numpy()
            source = type(source)(numbers, tl.float32)
        source = as_fp32(source, tl)
        if there is not None:
            return type(source)(saturated(source.data, there), wanted.scalar)
        return self.cast_impl(source, wanted)

    return convert
