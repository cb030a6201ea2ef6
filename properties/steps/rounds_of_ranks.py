"""Steps on ranks in runs of one length, whose requests lie in several rounds of all ranks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

WORLDS, RUNS = (2, 3, 4, 6, 8), (4, 16, 64)
"""Numbers of ranks, and positions of which a rank has so many in a row."""
GROUP, LARGE_GROUP = 4, 8
"""Tokens of a compressed key, whose states each run holds one or more of."""
PAGE = 16
"""The least tokens of a page."""
FEW = (5, 3)


def in_rounds(world: int, interleave: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes in the third round of all ranks, and a chunk of a run or more.

    Under a window, if there are any, all are beyond it.
    """
    ranks = ladder.under(world=world, interleave=interleave)
    if ranks is None:
        return None
    all_ranks = world * interleave
    limited = ranks.having("window", all_ranks + 1) or ranks.preferring(compress_ratio=GROUP)
    return _behind_rounds(limited, world, interleave, count)


def in_large_groups(world: int, interleave: int, ladder: Ladder, count: int) -> Case | None:
    """Return such a case of compressed keys, each of eight tokens."""
    grouped = ladder.unlimited.under(world=world, interleave=interleave, compress_ratio=LARGE_GROUP)
    return None if grouped is None else _behind_rounds(grouped, world, interleave, count)


def _behind_rounds(ladder: Ladder, world: int, interleave: int, count: int) -> Case | None:
    sizes = [size for size in ladder.sizes if size >= PAGE and size % interleave == 0]
    if not sizes:
        return None
    all_ranks = world * interleave
    lens: list[Lens] = [("decode", 2 * all_ranks + mixed(b, world) % all_ranks, 1) for b in range(count)]
    lens.append(("prefill", 2 * all_ranks - 3, interleave + 7))
    return ladder.step(lens, seed=count + all_ranks, block_size=min(sizes))


ROUNDS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    **{
        f"rounds of {world} ranks in runs of {run}": (partial(in_rounds, world, run), FEW)
        for world, run in product(WORLDS, RUNS)
    },
    **{
        f"rounds of {world} ranks in runs of {run}, in groups of {LARGE_GROUP}": (
            partial(in_large_groups, world, run),
            FEW,
        )
        for world, run in product(WORLDS, RUNS[1:])
    },
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
