"""Reductions and scans as compiled code has them.

The interpreter adds bf16 numbers as integers, takes no axis that counts from the end, raises where all
numbers of a row are NaN, and finds the first of equal numbers also where any may be found: here that is the
last. It combines from the left to the right: here a tree does, in order, as threads and warps do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cumae.properties.interpreter import trees
from cumae.properties.interpreter.narrow_numbers import as_fp32, is_bf16, rounded

Method = Callable[..., Any]


def patches(interpreter: Any) -> dict[tuple[Any, str], Method]:
    """Return for an owner and a name of Triton's the method that reduces so."""
    owners = (interpreter.ReduceOps, interpreter.ScanOps)
    found = {(owner, "apply_impl"): _applied(owner.apply_impl, interpreter.tl) for owner in owners}
    return found | trees.patches(interpreter)


def _applied(original: Method, tl: Any) -> Method:
    def apply(self: Any, given: Any) -> Any:
        if self.axis is not None and self.axis < 0:
            self.axis += len(given[0].shape)
        narrow = [is_bf16(one.handle) for one in given]
        if any(narrow):
            pairs = zip(given, narrow, strict=True)
            given = tuple(
                _with(one, as_fp32(one.handle, tl), tl) if is_narrow else one for one, is_narrow in pairs
            )
        found = _extreme(self, given, tl)
        if found is None:
            found = original(self, given)
        answers = found if isinstance(found, (list, tuple)) else (found,)
        return tuple(_as_bf16(one, tl) if was else one for one, was in zip(answers, narrow, strict=False))

    return apply


def _extreme(reduction: Any, given: Any, tl: Any) -> Any:
    """Return the least or greatest number and its place, or None if something else is asked for."""
    standard, combine = tl.standard, reduction.combine_fn
    if combine in (standard._elementwise_max, standard._elementwise_min):
        return _extreme_number(reduction, given[0], greatest=combine is standard._elementwise_max)
    for greatest, name in ((True, "argmax"), (False, "argmin")):
        for first, ties in ((True, "left"), (False, "fast")):
            if combine is getattr(standard, f"_{name}_combine_tie_break_{ties}"):
                return _extreme_place(reduction, given[0], tl, greatest=greatest, first=first)
    return None


def _extreme_number(reduction: Any, one: Any, *, greatest: bool) -> Any:
    """Return the extreme of the numbers; NaN is none, unless all are."""
    data = one.handle.data
    if data.dtype.kind != "f":
        return None
    ufunc = np.fmax if greatest else np.fmin
    return reduction.to_tensor(ufunc.reduce(data, reduction.axis, keepdims=reduction.keep_dims), one.dtype)


def _extreme_place(reduction: Any, one: Any, tl: Any, *, greatest: bool, first: bool) -> Any:
    """Return the extreme of the numbers along an axis and its place, the first or the last of equal ones."""
    data, axis = one.handle.data, reduction.axis
    if axis is None:
        return None
    wanted = data if first else np.flip(data, axis)
    if data.dtype.kind == "f":
        wanted = np.where(np.isnan(wanted).all(axis, keepdims=True), 0, wanted)
    place = (np.nanargmax if greatest else np.nanargmin)(wanted, axis=axis, keepdims=True)
    place = place if first else data.shape[axis] - 1 - place
    number = np.take_along_axis(data, place, axis)
    if not reduction.keep_dims:
        number, place = number.squeeze(axis), place.squeeze(axis)
    return reduction.to_tensor(number, one.dtype), reduction.to_tensor(place, tl.int32)


def _with(one: Any, handle: Any, tl: Any) -> Any:
    """Return a tensor of the same shape with another handle."""
    kind = tl.block_type(handle.dtype, list(one.shape)) if one.type.is_block() else handle.dtype
    return tl.tensor(handle, kind)


def _as_bf16(one: Any, tl: Any) -> Any:
    return _with(one, type(one.handle)(rounded(one.handle.data), tl.bfloat16), tl)
