"""Steps of as many tokens as a captured graph has, and prefills, in the widths that models have."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.steps.crowds import uneven_decodes
from cumae.properties.steps.deep_heads import LLAMA, prefill
from cumae.properties.steps.ladder import Ladder

SIZES, FEW = (128, 64), (64, 32)
"""Decodes of captured graphs, and those where each takes more work."""
TOPK = 2_048
"""Keys that each token selects, of as many or more that it sees."""


def in_rows(row_format: str, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, in latent rows of one format, as wide as models have them."""
    rows = ladder.in_rows_of(row_format)
    return None if rows is None else _decodes(rows, count, 5)


def routed_as(
    shape: tuple[int, int, int, int], scaling: int, dtype: str | None, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` tokens and a model's router. ``scaling``: of its weights, in thousandths."""
    router = ladder.routing(shape, dtype=dtype)
    if router is None:
        return None
    return router.preferring(scaling_thousandths=scaling, renormalize=True).tokens(count, 0)


def under(options: Mapping[str, Any], cached: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind ``cached`` tokens or more, under these options."""
    chosen = ladder.under(**options)
    return None if chosen is None else _decodes(chosen.unlimited, count, cached)


def prefill_in_rows(row_format: str, ladder: Ladder, count: int) -> Case | None:
    """Return a case of a prompt of ``count`` tokens in latent rows of one format, as models have them."""
    rows = ladder.in_rows_of(row_format)
    return None if rows is None else rows.step([("prefill", 3, count)], seed=count, padding=(0, 0))


def _decodes(ladder: Ladder, count: int, cached: int) -> Case | None:
    lens = uneven_decodes(count, cached, spread=40)
    return ladder.step(lens, seed=count, padding=(0, 0))


CAPTURED: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "routed, captured": (partial(routed_as, (256, 8, 4, 8), 2_500, None), SIZES),
    "routed, captured, 384 experts": (partial(routed_as, (384, 1, 1, 8), 2_827, None), FEW),
    "routed, captured, 512 experts": (partial(routed_as, (512, 1, 1, 10), 1_000, None), FEW),
    "routed, captured, 512 experts, 22 of them": (
        partial(routed_as, (512, 1, 1, 22), 1_000, None),
        (128, *FEW),
    ),
    "routed, captured, 128 experts": (partial(routed_as, (128, 1, 1, 4), 1_000, "bf16"), FEW),
    "captured, rows of fp8": (partial(in_rows, "fp8"), SIZES),
    "captured, rows of bf16": (partial(in_rows, "bf16"), SIZES),
    "captured, 8 heads": (partial(under, LLAMA, 5), SIZES),
    "captured, 8 heads in fp8": (partial(under, {**LLAMA, "head_format": "fp8"}, 5), SIZES),
    "routed, a prefill": (partial(routed_as, (256, 8, 4, 8), 2_500, "bf16"), (4_100, 2_060, 131)),
    "a prefill in rows of fp8": (partial(prefill_in_rows, "fp8"), (4_100,)),
    "a prefill of 8 heads in fp8": (partial(prefill, {**LLAMA, "head_format": "fp8"}), (2_060,)),
    "captured, all select": (partial(under, {"topk": TOPK}, TOPK), FEW),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
