"""Steps of exactly as many tokens as a captured graph has, in the widths that models have."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.documents import HEADS
from cumae.properties.cases.ladder import Ladder

SIZES, FEW = (256, 128, 64), (64, 32)
"""Decodes of captured graphs, and those where each takes more work."""
TOPK = 2_048
"""Keys that each token selects, of as many or more that it sees."""


def in_rows(row_format: str, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, in latent rows of one format, as wide as models have them."""
    rows = ladder.in_rows_of(row_format)
    return None if rows is None else _decodes(rows, count, 5)


def routed_as(shape: tuple[int, int, int, int], scaling: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` tokens and a model's router. ``scaling``: of its weights, in thousandths."""
    router = ladder.routing(shape)
    if router is None:
        return None
    scaled = router.having("scaling_thousandths", scaling) or router
    return (scaled.having("renormalize", True) or scaled).tokens(count, 0)


def under(options: Mapping[str, Any], cached: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind ``cached`` tokens or more, under these options."""
    for option, value in options.items():
        if (having := ladder.having(option, value)) is None:
            return None
        ladder = having
    return _decodes(ladder.unlimited, count, cached)


def _decodes(ladder: Ladder, count: int, cached: int) -> Case | None:
    lens: list[Lens] = [("decode", cached + mixed(b) % 40, 1) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(0, 0))


CAPTURED: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "routed, captured": (partial(routed_as, (256, 8, 4, 8), 2_500), SIZES),
    "routed, captured, 384 experts": (partial(routed_as, (384, 1, 1, 8), 2_827), SIZES),
    "routed, captured, 512 experts": (partial(routed_as, (512, 1, 1, 10), 1_000), SIZES),
    "captured, rows of fp8": (partial(in_rows, "fp8"), SIZES),
    "captured, rows of bf16": (partial(in_rows, "bf16"), SIZES),
    "captured, 8 heads": (partial(under, HEADS, 5), SIZES),
    "captured, 8 heads in fp8": (partial(under, HEADS | {"head_format": "fp8"}, 5), SIZES),
    "captured, all select": (partial(under, {"topk": TOPK}, TOPK), FEW),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
