"""Steps of ordinary size and lengths, in which other values are unusual: drafts, selected keys, biases."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

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


def routed_by(
    logits: str, bias: str, shape: tuple[int, int, int, int], ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` tokens and a router of this shape, with logits and biases of these kinds."""
    router = ladder.routing(shape, logits, bias=bias)
    return None if router is None else router.tokens(count, 0)


GROUPED, ALONE = (256, 8, 4, 8), (64, 1, 1, 6)
"""A router whose experts lie in groups, and one without groups."""
ODD: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "unequal drafts": (unequal_drafts, (67, 19, 5)),
    "selections with holes": (partial(selections_with_holes, False), (19, 7)),
    "selections with holes in a workspace": (partial(selections_with_holes, True), (19, 7)),
    **{
        f"routed by {logits} behind {bias} biases": (partial(routed_by, logits, bias, GROUPED), (19, 7))
        for logits, bias in (("nan_and_inf", "negative"), ("nan_and_inf", "low"), ("random", "very_low"))
    },
    "routed by NaN without biases": (partial(routed_by, "nan_and_inf", "zero", ALONE), (37, 7)),
    "routed by biases of which few are far": (partial(routed_by, "random", "few_far", GROUPED), (19, 7)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
