"""Steps that a weak key takes for each other: sums, sorted lengths or a checksum are the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeVar

from cumae.oracle import Case, Phase, Trace
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.alike import FAR, telling_of, traced
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder

T = TypeVar("T")

DECODES = (11, 29, 13, 10, 40, 23, 1, 5, 6, 35, 17, 31, 22, 3, 8, 27, 2, 19, 12, 26)
"""Cached tokens of decodes, of more than a tile of them."""
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
"""By the quantity that stays the same: the lengths that change."""
PROMPT: Lens = ("prefill", 9, 3)
AMONG = (9, 6, 5, 3, 1)
"""Places of prompts among the decodes, so that one stands between most that change together."""
CHUNKS = ((10, 3), (20, 1), (7, 5), (0, 4), (15, 0), (9, 2))
"""Cached and new tokens of chunks."""
CUT = 4
"""Tokens of a chunk of positions: cached tokens of the chunks above are no multiple of it, or are one."""
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
    """Yield traces of decodes, of decodes and prompts, and of chunks; each second step is the same."""
    telling = telling_of(ladder)
    decodes: list[list[Lens]] = []
    for context_lens in _in_turns(DECODES, OTHER_DECODES.values()):
        decodes.append([("decode", context_len, 1) for context_len in context_lens])
    among_prompts = [[*step] for step in decodes]
    for step, place in product(among_prompts, AMONG):
        step.insert(place, PROMPT)
    chunks: list[list[Lens]] = []
    for lens in _in_turns(CHUNKS, OTHER_CHUNKS.values()):
        chunks.append([("prefill", *each) for each in lens])
    without_drafts = telling.having("max_drafts", 0) or telling
    shown = [(decodes, telling), (among_prompts, telling), (chunks, without_drafts)]
    if (cut := telling.under(chunk_size=CUT, absolute_chunks=True)) is not None:
        shown.append((chunks, cut))
    for steps, rungs in shown:
        trace = traced([rungs.step(step, seed=len(step), padding=(0, 0)) for step in steps])
        if trace is not None:
            yield trace


def between_equal_ends(limited: Ladder) -> Trace | None:
    """Return steps of chunks beyond a window; in the second one, the two in the middle have other lengths.

    New tokens, keys, and the first and the last chunk stay the same.
    """
    usual, other = ((300, 9), (500, 7)), ((302, 7), (498, 9))
    lens: list[list[Lens]] = [
        [("prefill", cached, new) for cached, new in ((200, 4), *middle, (190, 5))]
        for middle in (usual, other, usual)
    ]
    return traced([limited.step(one, seed=4, padding=(0, 0)) for one in lens])


def in_other_phases(scope: str, other: Phase, ladder: Ladder) -> Trace | None:
    """Return steps of the same lengths, in which one request is a decode, a chunk, and a decode again.

    ``scope``: the requests whose keys count, where it may be chosen. ``other``: what a chunk is meanwhile.
    """
    scoped = telling_of(ladder.having("key_scope", scope) or ladder)
    usual: tuple[Phase, Phase] = ("decode", "prefill")
    steps = []
    for one, next_one in (usual, ("prefill", other), usual):
        lens: list[Lens] = [("decode", 5, 1), ("decode", 40, 1), (one, 17, 1), (next_one, 33, 1)]
        steps.append(scoped.step([*lens, ("prefill", 9, 3)], seed=5, padding=(0, 0)))
    return traced(steps)


def changed_alone(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return three steps of ``count`` decodes; they are alike, but one has a cached token more in between."""
    telling = telling_of(ladder)
    steps: list[Case | None] = []
    for more in (0, 1, 0):
        contexts = [1 + mixed(b) % 32 + more * (b == at) for b in range(count)]
        lens: list[Lens] = [("decode", context, 1) for context in contexts]
        steps.append(telling.step(lens, seed=count, padding=(0, 0)))
    return traced(steps)


def changed_far(ladder: Ladder) -> Trace | None:
    """Return steps of decodes of three tokens each; in every second one, one has a cached token more.

    One has more cached tokens than fp16 counts, and one nearly as many as a token selects.
    """
    steps = []
    for first, second in ((0, 0), (1, 0), (0, 0), (0, 1), (0, 0)):
        lens: list[Lens] = [
            ("decode", 2_048 + first, 3),
            ("decode", FAR - 3 + second, 3),
            ("decode", 3_001, 3),
        ]
        steps.append(telling_of(ladder, FAR).step(lens, seed=len(lens), padding=(0, 0)))
    return traced(steps)


def exchanged(ladder: Ladder, count: int, at: int) -> Trace | None:
    """Return steps of ``count`` decodes: two late ones exchange new tokens, cached ones, or both."""
    telling = telling_of(ladder)
    steps: list[Case | None] = []
    usual = ((7, 1), (9, 2))
    alike = ((7, 1), (9, 1))
    turns = (usual, ((7, 2), (9, 1)), usual, ((9, 1), (7, 2)), usual, usual[::-1], usual, alike, alike[::-1])
    for first, second in turns:
        lens = uneven_decodes(count, 1, spread=30)
        lens[at : at + 2] = [("decode", *first), ("decode", *second)]
        steps.append(telling.step(lens, seed=count, padding=(0, 0)))
    return traced(steps)


def of_one_size(ladder: Ladder, size: int, counts: Sequence[int]) -> Trace | None:
    """Return steps of so many decodes, padded to ``size`` requests and tokens, as a captured graph's."""
    steps = []
    for k, count in enumerate(counts):
        lens: list[Lens] = [("decode", 9 + mixed(b) % 30 + k, 1) for b in range(count)]
        padded = max(size - count, 0)
        steps.append(ladder.step(lens, seed=size, padding=(padded, padded)))
    return traced(steps)
