"""Stores that other threads of a program see only behind the next barrier."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.interpreter.source_lines import source_line

DEFAULT_WARPS = 4
_LANES = 32
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
        most = prod(shape) // (_LANES * num_warps)
        vector = max(1, min(self.vector_bytes // item, most))
        return position // (_LANES * vector) % num_warps


class Stale(NamedTuple):
    """A load that missed an earlier store of the same program, with their lines."""

    loaded: str
    stored: str

    def __str__(self) -> str:
        return f"the load at {self.loaded} misses what other threads have stored at {self.stored}"


class _Kept(NamedTuple):
    value: bytes
    position: int
    shape: Shape
    line: str


@dataclass(slots=True)
class Delays:
    """Holds back the stores of a program until its threads meet, as at ``tl.debug_barrier``.

    A thread, and each thread of its warp, sees its stores at once: a lane always finds what it has stored.
    The layouts of blocks are the compiler's choice, so ``stores`` and ``loads`` are one of several guesses.
    Atomics, reductions, scans, and whatever may be compiled with a barrier count as meetings. ``stale``:
    the loads that found an older value. Stores and loads of different sizes of elements are not delayed.
    ``has_matrices``: whether a block with two axes was stored or loaded.
    """

    stores: Layout
    loads: Layout
    num_warps: int = DEFAULT_WARPS
    stale: list[Stale] = field(default_factory=list)
    has_matrices: bool = False
    _kept: dict[int, list[_Kept]] = field(default_factory=dict)
    _item: int = 0

    def store(self, addresses: Any, live: Any, values: Any) -> None:
        """Keep the stores of a block."""
        if values.itemsize != self._item:
            self.meet()
        self._item = values.itemsize
        self.has_matrices |= _is_matrix(addresses.shape)
        line, flat = source_line(), np.ascontiguousarray(values).reshape(-1)
        for position in np.flatnonzero(live).tolist():
            value = _Kept(flat[position].tobytes(), position, addresses.shape, line)
            self._kept.setdefault(int(addresses.flat[position]), []).append(value)

    def load(self, addresses: Any, live: Any, found: Any) -> Any:
        """Return the values of a block's load, given those in memory."""
        if not self._kept:
            return found
        positions = np.flatnonzero(live & np.isin(addresses, list(self._kept)))
        if not positions.size:
            return found
        if found.itemsize != self._item:
            self.meet()
            return _from_memory(addresses, live, found)
        self.has_matrices |= _is_matrix(addresses.shape)
        seen = np.array(np.broadcast_to(found, live.shape))
        for position in positions.tolist():
            kept = self._kept[int(addresses.flat[position])]
            near = [one for one in kept if not self._is_apart(one, position, addresses.shape)]
            if near:
                seen.flat[position] = np.frombuffer(near[-1].value, seen.dtype)[0]
            if seen.flat[position].tobytes() != kept[-1].value:
                self.stale.append(Stale(source_line(), kept[-1].line))
        return seen

    def meet(self) -> None:
        """Let memory have what was kept: the threads of the program meet here."""
        for address, kept in self._kept.items():
            ctypes.memmove(address, kept[-1].value, len(kept[-1].value))
        self._kept.clear()

    def _is_apart(self, kept: _Kept, position: int, shape: Shape) -> bool:
        """Return whether a lane is surely in another warp than the one that stored."""
        if (kept.position, prod(kept.shape)) == (position, prod(shape)):
            return False
        stored = self.stores.warp(kept.position, kept.shape, self._item, self.num_warps)
        return stored != self.loads.warp(position, shape, self._item, self.num_warps)


def layouts() -> Iterator[tuple[Layout, Layout]]:
    """Yield the layouts that the compiler may choose for stores and for loads; only matrices have columns."""
    each = [Layout(width, by_rows) for width in _WIDTHS for by_rows in (True, False)]
    yield from product(each, each)


def _is_matrix(shape: Shape) -> bool:
    return sum(size > 1 for size in shape) > 1


def _from_memory(addresses: Any, live: Any, found: Any) -> Any:
    seen = np.array(np.broadcast_to(found, live.shape))
    for position in np.flatnonzero(live).tolist():
        word = ctypes.string_at(int(addresses.flat[position]), seen.itemsize)
        seen.flat[position] = np.frombuffer(word, seen.dtype)[0]
    return seen
