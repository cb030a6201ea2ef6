"""The threads of a program: which warp holds an element of a block, and when memory changes for others."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

DEFAULT_WARPS = 4
LANES = 32
_WIDTHS = (16, 8, 4, 1)
Shape = tuple[int, ...]


class Layout(NamedTuple):
    """How a block's elements are spread over warps: bytes of a thread's vector, and rows or columns first."""

    vector_bytes: int = 16
    by_rows: bool = True

    def warp(self, position: int, shape: Shape, item: int, num_warps: int) -> int:
        """Return the warp that holds the element at a position of a block.

        A block that is smaller than all threads is held several times; the first warps store it.
        """
        if not self.by_rows:
            position = int(np.ravel_multi_index(np.unravel_index(position, shape), shape, order="F"))
        most = prod(shape) // (LANES * num_warps)
        vector = max(1, min(self.vector_bytes // item, most))
        return position // (LANES * vector) % num_warps


@dataclass(slots=True, kw_only=True)
class Threads:
    """The threads of the programs of a call, between two of their meetings.

    A program's threads meet at ``tl.debug_barrier``, and at whatever may be compiled with a barrier: atomics,
    reductions, scans. The layouts of blocks are the compiler's choice, so ``stores`` and ``loads`` are one of
    several guesses. ``has_columns``: whether a block with two axes was stored or loaded whose elements do not
    lie next to each other along the last axis. Only then the compiler may count columns first.
    """

    stores: Layout
    loads: Layout
    num_warps: int = DEFAULT_WARPS
    has_columns: bool = False

    def store(self, addresses: Any, live: Any, values: Any) -> bool:
        """See a block's store; return whether memory gets it later, so that it must not be done now."""
        raise NotImplementedError

    def load(self, addresses: Any, live: Any, found: Any) -> Any:
        """Return the values of a block's load, given those in memory."""
        raise NotImplementedError

    def meet(self) -> None:
        """Let all threads of the program see the same memory."""
        raise NotImplementedError

    def seen(self, addresses: Any, item: int) -> None:
        """Take note of how a block of elements of ``item`` bytes lies in memory."""
        axis = dense_axis(addresses, item)
        self.has_columns |= axis is not None and axis != addresses.ndim - 1

    def warp_of_store(self, position: int, shape: Shape, item: int) -> int:
        """Return the warp that stores an element of a block."""
        return self.stores.warp(position, shape, item, self.num_warps)

    def are_apart(
        self, stored_at: int, stored_shape: Shape, loaded_at: int, loaded_shape: Shape, item: int
    ) -> bool:
        """Return whether the lane that stores is surely in another warp than the one that loads."""
        if (stored_at, prod(stored_shape)) == (loaded_at, prod(loaded_shape)):
            return False
        loads = self.loads.warp(loaded_at, loaded_shape, item, self.num_warps)
        return self.warp_of_store(stored_at, stored_shape, item) != loads


def dense_axis(addresses: Any, item: int) -> int | None:
    """Return the axis along which the elements of a block lie next to each other, the last one first.

    It is -1 for a block with two axes but no such one, and None for a block with fewer.
    """
    axes = [axis for axis, size in enumerate(addresses.shape) if size > 1]
    if len(axes) < 2:
        return None
    dense = (axis for axis in reversed(axes) if (np.diff(addresses, axis=axis) == item).all())
    return next(dense, -1)


def layouts() -> Iterator[tuple[Layout, Layout]]:
    """Yield the layouts that the compiler may choose for stores and for loads."""
    each = [Layout(width, by_rows) for width in _WIDTHS for by_rows in (True, False)]
    yield from product(each, each)
