"""Steps that a weak key takes for each other: sums, maxima, sorted lengths or a checksum are the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from cumae.oracle import Trace, leveled
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.ladder import Ladder

NEAR = 512
"""A token selects all of its keys, so that each length matters."""
T = TypeVar("T")

DECODES = (11, 29, 13, 10, 40, 23, 1, 5, 6, 35, 17, 31)
"""Cached tokens of decodes."""
OTHER_DECODES: Mapping[str, Mapping[int, int]] = {
    "two change places: all but the order is the same": {0: 29, 1: 11},
    "the sum, the first and the last": {4: 41, 5: 22},
    "sums weighted by place, as in a checksum": {3: 11, 4: 38, 5: 24},
    "sums weighted by the square of the place": {4: 41, 5: 20, 6: 4, 7: 4},
    "the sum, and that of squares": {6: 2, 7: 3, 8: 7},
    "the sum, and the bits in which an odd number of lengths is set": {2: 15, 3: 8},
    "the last eight bits": {1: 29 + 256},
    "the digits one after the other": {10: 173, 11: 1},
}
"""What stays the same, and the lengths that change."""

CHUNKS = ((10, 3), (20, 1), (7, 5), (0, 4), (15, 0), (9, 2))
"""Cached and new tokens of chunks."""
OTHER_CHUNKS: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "lengths after the step": {0: (11, 2), 1: (19, 2)},
    "cached tokens, and the sum of new ones": {0: (10, 1), 1: (20, 3)},
    "new tokens, and the sum of cached ones": {0: (20, 3), 1: (10, 1)},
    "all but the place of the idle one": {4: (9, 2), 5: (15, 0)},
}


def _in_turns(base: Sequence[T], others: Iterable[Mapping[int, T]]) -> Iterator[list[T]]:
    """Yield the base before and after each of the others."""
    yield [*base]
    for other in others:
        yield [other.get(i, each) for i, each in enumerate(base)]
        yield [*base]


def collisions(ladder: Ladder) -> Iterator[Trace]:
    """Yield a trace of decodes and one of chunks, in which each second step is the same.

    The host knows the lengths.
    """
    selecting = (ladder.having("topk", NEAR) or ladder).without("host_lens")
    decodes: list[Sequence[Lens]] = []
    for context_lens in _in_turns(DECODES, OTHER_DECODES.values()):
        decodes.append([("decode", context_len, 1) for context_len in context_lens])
    chunks: list[Sequence[Lens]] = []
    for lens in _in_turns(CHUNKS, OTHER_CHUNKS.values()):
        chunks.append([("prefill", *each) for each in lens])
    for steps in (decodes, chunks):
        cases = [selecting.step(step, seed=len(step), padding=(0, 0)) for step in steps]
        alike = [case for case in cases if case is not None]
        if len(alike) == len(cases):
            yield leveled(alike)
