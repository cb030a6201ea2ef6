"""Reductions and scans by a kernel's own function, grouped as a tree.

The interpreter combines one element after the other, from the left. On a GPU each thread, each warp and then
the program combine what they have: in order, but in groups. A function that is not associative gives
another answer there. Here neighbours are combined first, then pairs of them, and so on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Method = Callable[..., Any]
Parts = list[np.ndarray[Any, np.dtype[Any]]]


class _IsNoCondition(Exception):
    """Raised where a block decides what runs next: its elements are combined one by one then."""


def patches(interpreter: Any) -> dict[tuple[Any, str], Method]:
    """Return for an owner and a name of Triton's the method that combines so."""
    reduces, scans = interpreter.ReduceOps, interpreter.ScanOps
    return {
        (reduces, "generic_reduce"): _reduced(reduces.generic_reduce, interpreter.tl),
        (scans, "generic_scan"): _scanned(scans.generic_scan, interpreter.tl),
    }


def _reduced(original: Method, tl: Any) -> Method:
    def reduce(self: Any, given: Any) -> Any:
        parts = [one.handle.data for one in given]
        if self.axis is None:
            parts = [part.reshape(-1) for part in parts]
        axis = self.axis or 0
        try:
            with _conditions_of_one(tl):
                while parts[0].shape[axis] > 1:
                    left, right = (_every_second(parts, axis, first) for first in (0, 1))
                    parts = _combined(self, left, right, given)
        except _IsNoCondition:
            return original(self, given)
        if self.axis is None and self.keep_dims:
            parts = [part.reshape((1,) * given[0].handle.data.ndim) for part in parts]
        elif not self.keep_dims:
            parts = [part.squeeze(axis) for part in parts]
        answers = [part if part.shape else part.item() for part in parts]
        return [self.to_tensor(answer, one.dtype) for answer, one in zip(answers, given, strict=True)]

    return reduce


def _scanned(original: Method, tl: Any) -> Method:
    def scan(self: Any, given: Any) -> Any:
        parts = [np.moveaxis(one.handle.data, self.axis, 0) for one in given]
        size, apart = len(parts[0]), 1
        try:
            with _conditions_of_one(tl):
                while apart < size:
                    before = [np.roll(part, apart, 0) for part in parts]  # the first ones stay as they are
                    later = _combined(self, before, parts, given)
                    parts = [
                        np.concatenate([part[:apart], new[apart:]])
                        for part, new in zip(parts, later, strict=True)
                    ]
                    apart *= 2
        except _IsNoCondition:
            return original(self, given)
        found = [np.ascontiguousarray(np.moveaxis(part, 0, self.axis)) for part in parts]
        return [self.to_tensor(part, one.dtype) for part, one in zip(found, given, strict=True)]

    return scan


def _every_second(parts: Parts, axis: int, first: int) -> Parts:
    index = (slice(None),) * axis + (slice(first, None, 2),)
    return [part[index] for part in parts]


def _combined(self: Any, left: Parts, right: Parts, given: Any) -> Parts:
    """Return what the kernel's function makes of blocks, in the types of what is combined."""
    blocks = [
        self.to_tensor(np.ascontiguousarray(part), one.dtype)
        for side in (left, right)
        for part, one in zip(side, given, strict=True)
    ]
    answers = self.combine_fn.fn(*blocks)
    answers = answers if isinstance(answers, tuple) else (answers,)
    data = [getattr(getattr(answer, "handle", None), "data", answer) for answer in answers]
    return [
        np.broadcast_to(np.asarray(one).astype(part.dtype), part.shape)
        for one, part in zip(data, left, strict=True)
    ]


@contextmanager
def _conditions_of_one(tl: Any) -> Iterator[None]:
    """Let blocks be no conditions: the interpreter takes each to be true."""
    tensor = tl.core.tensor
    of_one = tensor.__bool__

    def condition(block: Any) -> bool:
        if block.handle.data.size > 1:
            raise _IsNoCondition
        return bool(of_one(block))

    tensor.__bool__ = condition
    try:
        yield
    finally:
        tensor.__bool__ = of_one
