"""The record of one interpreted call: stray accesses, garbage reads, failed assertions, races."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cumae.properties.interpreter.bases import base_of
from cumae.properties.interpreter.early import Early
from cumae.properties.interpreter.hints import Hints
from cumae.properties.interpreter.patience import Patience
from cumae.properties.interpreter.pointers import Pointers
from cumae.properties.interpreter.races import Contest, Event, Race, loads_again, races_of, stores_over
from cumae.properties.interpreter.region import Region, words_at
from cumae.properties.interpreter.source_lines import kernel_frame, source_line
from cumae.properties.interpreter.strays import Access, Garbage, Unaligned
from cumae.properties.interpreter.threads import Threads
from cumae.properties.interpreter.turns import Turns


@dataclass(slots=True)
class Watch:
    """The record of the launches of one call; ``counts``: how often each hook was called.

    ``asserted``: failed device assertions with their line, and overflows if they are looked for.
    ``given``: the tensors of the call; a launch that gets a view of one may reach all of it.
    ``outside``: the first eight of ``num_outside`` accesses that are stray or not aligned; ``hints``: the
    claims that some rely on. ``pointers``: those that the launch made from integers. If races are looked for,
    ``contested`` has the lines that access an address which one program changes and another touches, and
    ``loads_again`` says whether a program loads an address that it has stored to, ``stores_over`` whether it
    stores to one that another lane has loaded. ``turns`` and ``threads``: how programs run, and when their
    threads see what others stored; ``order_seed`` permutes the programs, the lanes of an atomic and the
    indices to which torch writes: ``lanes_reordered`` and ``indices_turned`` say whether there were any.
    ``early``: what launches that begin early access before they wait. ``undefined``: the lines of masked
    loads without ``other`` that left lanes undefined; these hold 0, in ``filled`` lines another number.
    ``tuned``: the configuration of each autotuned kernel by its tuning key.
    ``waits`` is called if a program only repeats its loads, while the others have not begun or have ended.
    """

    outside: list[Access | Unaligned] = field(default_factory=list)
    num_outside: int = 0
    garbage: dict[tuple[str, int], Garbage] = field(default_factory=dict)
    asserted: list[str] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    most_programs: int = 0
    seeks_races: bool = False
    turns: Turns | None = None
    threads: Threads | None = None
    order_seed: int | None = None
    patience: Patience = field(default_factory=Patience)
    waits: Callable[[], None] = lambda: None
    contested: frozenset[str] = frozenset()
    loads_again: bool = False
    stores_over: bool = False
    program: int = 0
    semantic: str = ""
    hints: Hints = field(default_factory=Hints)
    lanes_reordered: bool = False
    indices_turned: bool = False
    early: Early = field(default_factory=Early)
    undefined: set[str] = field(default_factory=set)
    filled: Collection[str] = ()
    tuned: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    given: Callable[[], Iterable[Region]] = tuple
    pointers: Pointers = field(default_factory=Pointers)
    _spans: list[Region] = field(default_factory=list)
    _reached: list[Region] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _poison: int | None = None
    _poisoned: Callable[[], Iterable[Region]] = tuple
    _ended: list[Event] = field(default_factory=list)
    _lines: list[Counter[tuple[int, str]]] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether the call is watched as it runs, in no other order and not for races."""
        others = self.order_seed, self.turns, self.threads
        return not self.seeks_races and all(one is None for one in others)

    @property
    def keeps_accesses(self) -> bool:
        """Whether what each access finds and changes is recorded."""
        return self.seeks_races or self.turns is not None

    @property
    def num_accesses(self) -> int:
        """The number of loads, stores and atomics checked."""
        return sum(self.counts[kind] for kind in ("load", "store", "atomic", "exchange"))

    def follow(self, poison: int, poisoned: Callable[[], Iterable[Region]]) -> None:
        """Count a read of ``poison`` in these regions as a read of an unwritten element."""
        self._poison, self._poisoned = poison, poisoned

    def launch(self, spans: list[Region]) -> None:
        """Begin a launch with these tensors."""
        self.close()
        self._spans = spans
        whole = [r for r in self.given() if any(s.start in r and s.stop <= r.stop for s in spans)]
        self._reached = [*spans, *whole]
        self.pointers = Pointers(self.given)
        self.early.launch()

    def begin(self, program: int) -> None:
        """Begin a program of the launch."""
        self.program = program
        self.patience.begin()
        self.hints.false.clear()

    def close(self) -> None:
        """End the last launch and record its races."""
        contest = Contest(self._events)
        self.races += races_of(contest, self.place)
        self.contested |= contest.lines
        self.loads_again |= loads_again(self._events)
        self.stores_over |= stores_over(self._events)
        self._lines.append(Counter((event.program, event.line) for event in self._events))
        self._ended += self._events
        self._events.clear()

    def points(self) -> list[list[int]]:
        """Return, for each launch, how often each program reaches a contested line."""
        launches = []
        for lines in self._lines:
            counts: Counter[int] = Counter()
            for (program, line), count in lines.items():
                counts[program] += count * (line in self.contested)
            launches.append(list(counts.values()))
        return launches

    def holds(self, addresses: Any) -> bool:
        """Return whether one tensor of the launch holds all of these addresses; False proves nothing."""
        if self.pointers.any_made or not addresses.size:
            return not addresses.size
        low, high = np.minimum.reduce(addresses, axis=None), np.maximum.reduce(addresses, axis=None)
        return any(span.start <= low and high < span.stop for span in self._reached)

    def inside(self, pointers: Any) -> Any:
        """Return which pointers lie in the tensor they were made for, or in one of the launch.

        A launch reaches all of a tensor of which it gets a view.
        """
        addresses = self.pointers.unmade(pointers)
        inside = np.zeros(addresses.shape, dtype=bool)
        for span in self._reached:
            inside |= (addresses >= span.start) & (addresses < span.stop)
            if inside.all():
                break
        return self.pointers.reach(pointers, inside) if self.pointers.any_made else inside

    def stray(self, kind: str, pointers: Any) -> None:
        """Record a stray access under the tensor it was computed from, else under one that is near."""
        self.num_outside += 1
        if not self._spans or len(self.outside) >= 8:
            return
        pointer = int(pointers.reshape(-1)[0])
        address = int(self.pointers.unmade(pointers).reshape(-1)[0])
        span = self.pointers.tensor_of(pointer)
        nowhere = 0 if span is not None or pointer == address else address
        span = span or (None if nowhere else base_of(kernel_frame(), kind, self._spans))
        is_known = span is not None
        span = span or min(self._spans, key=lambda s: max(s.start - address, address - (s.stop - 1)))
        size = (span.stop - span.start) // span.item
        element = (address - span.start) // span.item
        self.outside.append(Access(kind, span.name, element, size, source_line(), nowhere, is_known))

    def start_of(self, address: int) -> int | None:
        """Return where the tensor of the launch that holds an address begins."""
        return next((span.start for span in self._reached if address in span), None)

    def unaligned(self, found: Unaligned) -> None:
        """Record an access that is not aligned."""
        self.num_outside += 1
        if len(self.outside) < 8:
            self.outside.append(found)

    def read(self, addresses: Any, live: Any, found: Any) -> None:
        """Look for poison in the values of a load or an atomic."""
        if self._poison is None:
            return
        words = np.ascontiguousarray(found)
        hits = words.view(f"u{words.itemsize}") == _pattern(self._poison, words.itemsize)
        if not hits.any():
            return
        hits = np.broadcast_to(hits, live.shape) & live
        suspects = addresses[hits]
        for region in self._poisoned():
            for address in suspects[(suspects >= region.start) & (suspects < region.stop)].tolist():
                key = (region.name, region.index(address))
                if key not in self.garbage:
                    self.garbage[key] = Garbage(*key, source_line())

    def loaded(self, addresses: Any, found: Any) -> None:
        """Record a load: a turn of its program, and an event for the search for races."""
        if self.turns is not None:
            self.turns.after(addresses, changed=False)
        if not self.seeks_races:
            return
        nothing = np.zeros(addresses.shape, dtype=bool)
        kind = "atomic" if self.semantic else "load"
        words = _words(found)
        self._events.append(
            Event(kind, self.program, source_line(), addresses, nothing, words, nothing, self._synchronises)
        )

    def written(
        self, kind: str, addresses: Any, before: Any, item: int, stored: Any, synchronises: bool
    ) -> None:
        """Record a store or an atomic, with its elements before and after."""
        after = self.peek(addresses, item)
        if self.turns is not None:
            self.turns.after(addresses, changed=bool((before != after).any()))
        if not self.seeks_races:
            return
        torn = np.zeros(addresses.shape, dtype=bool) if stored is None else after != _words(stored)
        if self.semantic:
            kind, synchronises = "atomic", self._synchronises
        changed = before != after
        self._events.append(
            Event(kind, self.program, source_line(), addresses, changed, after, torn, synchronises)
        )

    @property
    def _synchronises(self) -> bool:
        return bool(self.semantic) and "RELAXED" not in self.semantic

    def peek(self, addresses: Any, item: int) -> Any:
        """Return the words of ``item`` bytes at addresses that lie inside."""
        return words_at(addresses, item, (*self._reached, *self.pointers.tensors))

    def place(self, address: int) -> tuple[str, int]:
        """Return the name of the tensor at an address, by the call or else by the kernel, and the index."""
        regions = (*self._poisoned(), *self._reached, *self.pointers.tensors)
        region = next((r for r in regions if address in r), Region("memory", 0, 2**64, 1))
        return region.name, region.index(address)

    def writer_of(self, name: str, index: int) -> str:
        """Return in words which program wrote an element last, and where; empty if no write was seen."""
        for region in self._poisoned():
            address = region.address(index)
            for event in reversed(self._ended) if region.name == name else ():
                if event.kind != "load" and (event.addresses == address).any():
                    return f"last written by program {event.program} at {event.line}"
        return ""


@dataclass(slots=True)
class Current:
    """The watch of the call that runs; hooks outlive it. ``kernel``: the one that was launched last."""

    watch: Watch
    kernel: Any = None


@cache
def _pattern(poison: int, size: int) -> Any:
    """Return the word of so many bytes that are all the poison."""
    return np.dtype(f"u{size}").type(int.from_bytes(bytes([poison]) * size, "little"))


def _words(values: Any) -> Any:
    values = np.ascontiguousarray(values)
    return values.view(f"u{values.itemsize}").astype(np.uint64)
