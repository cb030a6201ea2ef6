"""Races: two programs of a launch access one element, and nothing orders the accesses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 64
_ATOMIC = ("atomic", "exchange")


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one program: its addresses, the elements it changed, and their values after it.

    ``torn``: elements that hold another value than this access stored there, because another lane of the
    same block stored there too. ``synchronises``: whether it is an atomic that is not relaxed.
    """

    kind: str
    program: int
    line: str
    addresses: Any
    changed: Any
    after: Any
    torn: Any
    synchronises: bool


@dataclass(frozen=True, slots=True)
class Race:
    """An element that two programs, or two lanes of one, access so that its value depends on timing."""

    tensor: str
    index: int
    what: str

    def __str__(self) -> str:
        return f"`{self.tensor}[{self.index}]` {self.what}"


@dataclass(frozen=True, slots=True)
class _Touch:
    """One element of an event; ``time``: the index of the event."""

    event: Event
    time: int
    changed: bool
    value: int

    def __str__(self) -> str:
        done = {"load": "loaded", "store": "stored"}.get(self.event.kind, "updated atomically")
        return f"{done} by program {self.event.program} at {self.event.line}"


class Contest:
    """The addresses of a launch that one program changes and another accesses."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self._groups: list[Any] = []
        if len({event.program for event in events if event.addresses.size}) < 2:
            return
        address = np.concatenate([event.addresses for event in events])
        self._time = time = np.repeat(np.arange(len(events)), [len(event.addresses) for event in events])
        self._lane = np.concatenate([np.arange(len(event.addresses)) for event in events])
        program = np.array([event.program for event in events])[time]
        changed = np.concatenate([event.changed for event in events])
        order = np.lexsort((time, address))
        starts = np.flatnonzero(np.r_[True, np.diff(address[order].astype(np.int64)) != 0])
        several = np.minimum.reduceat(program[order], starts) != np.maximum.reduceat(program[order], starts)
        contested = several & np.logical_or.reduceat(changed[order], starts)
        stops = np.r_[starts[1:], len(order)]
        self._groups = [order[starts[group] : stops[group]] for group in np.flatnonzero(contested)]

    @property
    def lines(self) -> frozenset[str]:
        """The lines that access these addresses."""
        times = np.unique(np.concatenate([self._time[ids] for ids in self._groups])) if self._groups else ()
        return frozenset(self.events[time].line for time in times)

    def touches(self) -> Iterator[tuple[int, list[_Touch]]]:
        """Yield each address with its accesses in order."""
        for ids in self._groups:
            touches = []
            for i in ids:
                event, lane = self.events[self._time[i]], self._lane[i]
                changed, value = bool(event.changed[lane]), int(event.after[lane])
                touches.append(_Touch(event, int(self._time[i]), changed, value))
            yield int(touches[0].event.addresses[self._lane[ids[0]]]), touches


def races_of(contest: Contest, place: Callable[[int], tuple[str, int]]) -> list[Race]:
    """Return the races among the events of a launch, at most 64, one for each element.

    Not races: two programs that store one value, an access that changed nothing, two atomics, and
    accesses ordered by atomics on one address that are not relaxed.
    """
    events = contest.events
    found = [
        Race(*place(int(event.addresses[i])), f"is stored with two values by one block at {event.line}")
        for event in events
        for i in np.flatnonzero(event.torn)[:1]
    ]
    for address, touches in contest.touches():
        pair = next((pair for pair in _pairs(touches) if not _ordered(events, *pair)), None)
        if pair is not None:
            tensor, index = place(address)
            between = _relaxed_between(events, *pair)
            told = (
                f"; the atomics at {between} are relaxed and order nothing: acq_rel does" if between else ""
            )
            found.append(Race(tensor, index, f"is {pair[0]} and {pair[1]}{told}"))
        if len(found) >= MOST:
            break
    return found


def loads_again(events: Sequence[Event]) -> bool:
    """Return whether a program loads an address of the launch that it has stored to before."""
    return any(_repeats(events, "store", "load"))


def stores_over(events: Sequence[Event]) -> bool:
    """Return whether a program stores to an address of the launch that another lane may have loaded before.

    A block that is stored to the addresses where it was loaded has each lane's own elements, if these differ.
    """
    return any(
        not np.array_equal(loaded, stored) or len(np.unique(stored)) < len(stored)
        for loaded, stored in _repeats(events, "load", "store")
    )


def _repeats(events: Sequence[Event], first: str, second: str) -> Iterator[tuple[Any, Any]]:
    """Yield the addresses of each pair of accesses of these kinds, in this order, that a program repeats."""
    before: dict[int, list[tuple[int, int, Any]]] = {}
    for event in events:
        if event.kind not in (first, second) or not event.addresses.size:
            continue
        low, high = int(event.addresses.min()), int(event.addresses.max())
        here = before.setdefault(event.program, [])
        if event.kind == first:
            here.append((low, high, event.addresses))
            continue
        for start, stop, addresses in here:
            if start <= high and low <= stop and np.isin(event.addresses, addresses).any():
                yield addresses, event.addresses


def _pairs(touches: list[_Touch]) -> Iterator[tuple[_Touch, _Touch]]:
    """Yield pairs of accesses by two programs whose order matters: each with the last before it."""
    for j, second in enumerate(touches):
        others = [touch for touch in reversed(touches[:j]) if touch.event.program != second.event.program]
        for is_load in (False, True):
            first = next((touch for touch in others if (touch.event.kind == "load") is is_load), None)
            if first is not None and _shows(first, second):
                yield first, second


def _shows(first: _Touch, second: _Touch) -> bool:
    """Return whether swapping two accesses changes the value that one finds or leaves."""
    kinds = {first.event.kind, second.event.kind}
    if kinds == {"load"} or not kinds & {"load", "store"}:
        return False
    if kinds == {"store"}:
        return first.value != second.value
    return first.changed or second.changed


def _ordered(events: Sequence[Event], first: _Touch, second: _Touch) -> bool:
    """Return whether the first program releases after its access what the second acquires before its own."""
    meetings = _meetings(events, first, second)
    return any(released.synchronises and acquired.synchronises for released, acquired in meetings)


def _relaxed_between(events: Sequence[Event], first: _Touch, second: _Touch) -> str:
    """Return the lines of atomics that would order the two accesses, were they not relaxed."""
    for meeting in _meetings(events, first, second):
        return " and ".join(dict.fromkeys(one.line for one in meeting if not one.synchronises))
    return ""


def _meetings(events: Sequence[Event], first: _Touch, second: _Touch) -> Iterator[tuple[Event, Event]]:
    """Yield pairs of atomics on one address, the first program's after its access, then the second's."""
    between = events[first.time : second.time + 1]
    for i, released in enumerate(between):
        if released.program != first.event.program or released.kind not in _ATOMIC:
            continue
        for acquired in between[i + 1 :]:
            if acquired.program == second.event.program and acquired.kind in _ATOMIC:
                if np.isin(acquired.addresses, released.addresses).any():
                    yield released, acquired
