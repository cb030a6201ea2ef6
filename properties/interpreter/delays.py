"""Stores that other threads of a program see only behind the next barrier."""

import ctypes
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.threads import Shape, Threads


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


@dataclass(slots=True, kw_only=True)
class Delays(Threads):
    """Holds back the stores of a program until its threads meet.

    A thread, and each thread of its warp, sees its stores at once: a lane always finds what it has stored.
    ``stale``: the loads that found an older value. Stores and loads of different sizes of elements are not
    delayed.
    """

    stale: list[Stale] = field(default_factory=list)
    _kept: dict[int, list[_Kept]] = field(default_factory=dict)
    _item: int = 0

    def store(self, addresses: Any, live: Any, values: Any) -> bool:
        """Keep the stores of a block."""
        if values.itemsize != self._item:
            self.meet()
        self._item = values.itemsize
        self.seen(addresses, values.itemsize)
        line, flat = source_line(), np.ascontiguousarray(values).reshape(-1)
        for position in np.flatnonzero(live).tolist():
            value = _Kept(flat[position].tobytes(), position, addresses.shape, line)
            self._kept.setdefault(int(addresses.flat[position]), []).append(value)
        return True

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
        self.seen(addresses, found.itemsize)
        values = np.array(np.broadcast_to(found, live.shape))
        for position in positions.tolist():
            kept = self._kept[int(addresses.flat[position])]
            shape = addresses.shape
            near = [
                one
                for one in kept
                if not self.are_apart(one.position, one.shape, position, shape, self._item)
            ]
            if near:
                values.flat[position] = np.frombuffer(near[-1].value, values.dtype)[0]
            if values.flat[position].tobytes() != kept[-1].value:
                self.stale.append(Stale(source_line(), kept[-1].line))
        return values

    def meet(self) -> None:
        """Let memory have what was kept."""
        for address, kept in self._kept.items():
            ctypes.memmove(address, kept[-1].value, len(kept[-1].value))
        self._kept.clear()


def _from_memory(addresses: Any, live: Any, found: Any) -> Any:
    seen = np.array(np.broadcast_to(found, live.shape))
    for position in np.flatnonzero(live).tolist():
        word = ctypes.string_at(int(addresses.flat[position]), seen.itemsize)
        seen.flat[position] = np.frombuffer(word, seen.dtype)[0]
    return seen
