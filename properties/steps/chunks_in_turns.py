"""Traces of chunks behind other contexts, which a weak key takes for each other."""

from collections.abc import Sequence

from cumae.oracle import Trace
from cumae.properties.steps.alike import telling_of, traced
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

CONTEXTS, NEW = (4, 140, 8, 24, 72), 6
"""Cached tokens of chunks, all of them whole groups of 4, and the new tokens of each."""
FEW = 16
"""Selected keys of which a chunk has more."""
LITTLE = (1, 2, FEW - 2, FEW - 1, FEW, 1, FEW + 4, 3)
"""Cached tokens of one chunk, from step to step: some more or fewer than are selected."""


def behind_a_little_more(limited: Ladder) -> Trace | None:
    """Return steps of chunks; in every second one, each has a few cached tokens more.

    The first and the last token then stay in their groups of keys, and those between do not.
    """
    steps = []
    for more in (0, 1, 0, 2, 0, 3):
        lens: list[Lens] = [("prefill", cached + more, NEW) for cached in CONTEXTS]
        steps.append(limited.step(lens, seed=len(lens), padding=(0, 0)))
    return traced(steps)


def behind_little(ladder: Ladder) -> Trace | None:
    """Return steps of a chunk of more tokens than a token selects keys, behind a few cached tokens."""
    if ladder.having("topk", FEW) is None:
        return None
    selecting = telling_of(ladder, FEW)
    lens: Sequence[Sequence[Lens]] = [
        [("decode", 40, 1), ("prefill", cached, FEW + 5), ("prefill", 7, 2)] for cached in LITTLE
    ]
    return traced([selecting.step(one, seed=3, padding=(0, 0)) for one in lens])
