"""Loads that find what faster threads of the program have stored, although the store comes later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.threads import Shape, Threads, dense_axis

Place = tuple[int, int]
"""The number of a load in its call, and the position of an element in its block."""


class Overtaken(NamedTuple):
    """An element of a load that a warp other than its own stores to before the threads meet."""

    place: Place
    value: Any
    warp: int
    loaded: str
    stored: str

    def __str__(self) -> str:
        return f"the load at {self.loaded} finds what faster threads have stored at {self.stored}"


class _Load(NamedTuple):
    number: int
    addresses: Any
    live: Any
    values: Any
    shape: Shape
    axis: int | None
    line: str

    def is_turned(self, axis: int | None) -> bool:
        """Return whether a block that is stored with this dense axis was loaded with another one.

        The compiler gives the two different layouts, and the change of layout has a barrier.
        """
        return None not in (self.axis, axis) and self.axis != axis


@dataclass(slots=True, kw_only=True)
class Overtakes(Threads):
    """Finds stores that may come before a load of other threads, and gives loads their values.

    ``found``: what the call's stores overtake. ``given``: the values that loads get, by their place. If they
    are those that one warp stored in a call without any, this is a call in which that warp was faster than
    the others. A warp that loads what others have stored since the threads met could have found older
    values, had it been faster: what it stores overtakes nothing here. A store of the value that the load has
    found overtakes nothing either.
    """

    given: Mapping[Place, Any] = field(default_factory=dict)
    found: list[Overtaken] = field(default_factory=list)
    _num_loads: int = 0
    _loads: list[_Load] = field(default_factory=list)
    _stored: dict[int, list[tuple[int, Shape, int]]] = field(default_factory=dict)
    _slow: set[int] = field(default_factory=set)

    def store(self, addresses: Any, live: Any, values: Any) -> bool:
        """Find the loads that the stores of a block overtake; memory gets them now."""
        positions = np.flatnonzero(live)
        if not positions.size:
            return False
        shape, item, flat = addresses.shape, values.itemsize, np.ascontiguousarray(values).reshape(-1)
        self.seen(addresses, item)
        axis = dense_axis(addresses, item)
        stored = dict(zip(addresses.reshape(-1)[positions].tolist(), positions.tolist(), strict=True))
        for load in self._loads:
            if load.values.itemsize != item or load.is_turned(axis):
                continue
            for place in np.flatnonzero(load.live & np.isin(load.addresses, list(stored))).tolist():
                position = stored[int(load.addresses[place])]
                warp, value = self.warp_of_store(position, shape, item), flat[position]
                is_new = value.tobytes() != load.values[place].tobytes()
                if (
                    is_new
                    and warp not in self._slow
                    and self.are_apart(position, shape, place, load.shape, item)
                ):
                    at = (load.number, place)
                    self.found.append(Overtaken(at, value, warp, load.line, source_line()))
        for address, position in stored.items():
            self._stored.setdefault(address, []).append((position, shape, item))
        return False

    def load(self, addresses: Any, live: Any, found: Any) -> Any:
        """Return the values of a block's load, given those in memory."""
        shape, item = addresses.shape, found.itemsize
        self.seen(addresses, item)
        flat, is_live = addresses.reshape(-1), live.reshape(-1)
        for place in np.flatnonzero(is_live & np.isin(flat, list(self._stored))).tolist():
            for position, stored_shape, stored_item in self._stored[int(flat[place])]:
                if stored_item != item or self.are_apart(position, stored_shape, place, shape, item):
                    self._slow.add(self.loads.warp(place, shape, item, self.num_warps))
        number, values = self._num_loads, np.array(np.broadcast_to(found, shape))
        self._num_loads += 1
        for place in np.flatnonzero(is_live).tolist() if self.given else ():
            if (number, place) in self.given:
                values.flat[place] = self.given[number, place]
        axis, line = dense_axis(addresses, item), source_line()
        self._loads.append(_Load(number, flat, is_live, values.reshape(-1), shape, axis, line))
        return values

    def meet(self) -> None:
        """Forget the loads: no later store overtakes them."""
        self._loads.clear()
        self._stored.clear()
        self._slow.clear()
