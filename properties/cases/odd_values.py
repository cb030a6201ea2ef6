"""Steps of ordinary size and usual lengths, in which other values are unusual: drafts and selected keys."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.ladder import Ladder

SELECTED = 16
"""Keys that a token selects at most."""
FIRST_SELECTS_NOTHING = 4
"""A seed of selections with which the first token selects nothing, if tokens select fewer than they see."""


def unequal_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one length, with all drafts, some, or none."""
    if (chosen := ladder.seeded("draft_seed", 1)) is None:
        return None
    return chosen.preferring(max_drafts=3).step([("decode", 68, 4)] * count, seed=count, padding=(0, 0))


def selections_with_holes(gathered: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks and decodes, whose tokens select few keys, with -1 between them.

    The first token and others select nothing. ``gathered``: the keys of chunks lie in a workspace, if they
    may.
    """
    if (chosen := ladder.seeded("selection_seed", FIRST_SELECTS_NOTHING)) is None:
        return None
    having = {"topk": SELECTED, "selects_fewer": True, "selected_first": False, "prefill_workspace": gathered}
    lens: list[Lens] = [
        ("prefill", mixed(b) % 40, 5) if b % 3 else ("decode", 20 + mixed(b) % 40, 1) for b in range(count)
    ]
    return chosen.unlimited.preferring(**having).step(lens, seed=count, padding=(0, 0))


ODD: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "unequal drafts": (unequal_drafts, (67, 19, 5)),
    "selections with holes": (partial(selections_with_holes, False), (19, 7)),
    "selections with holes in a workspace": (partial(selections_with_holes, True), (19, 7)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
