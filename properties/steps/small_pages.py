"""Small steps in pages of each order and format: with all that their branches may forget, and whole pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from cumae.oracle import HEAD_FORMATS, PAGE_ORDERS, Case
from cumae.properties.cases.draws import edited
from cumae.properties.cases.page_formats import fits
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

LENS: Sequence[Lens] = (("decode", 40, 1), ("prefill", 0, 5), ("decode", 37, 1), ("prefill", 18, 2))
"""Requests, the first of which lacks a page between others, where pages may be missing."""
DIMS = ((48, 16), (16, 4), (16, 16), (32, 32), (64, 64), (128, 128), (256, 256))
"""Numbers of a key and of a value; the first that a domain has."""
WINDOW = 24
WHOLE = 16
"""Tokens of a page that prompts fill."""
SCALED = ("fp8", "fp8_own", "int8_own")
"""Formats whose numbers have scales."""
SCALES = {"key_scale_thousandths": 125, "value_scale_thousandths": 2_827}


def small(order: str, head_format: str, windowed: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of requests in pages of one kind, with scales and widths that differ.

    ``windowed``: with a window as well, which hides most pages.
    """
    paged = _paged(order, head_format, ladder)
    limited = paged.having("window", WINDOW) if paged is not None and windowed else paged
    if limited is None:
        return None
    chosen = limited if windowed else limited.unlimited
    case = chosen.preferring(num_heads=2, **SCALES).step(LENS[:count], seed=count)
    if case is None or not ladder.misses_blocks:
        return case
    lacking = [
        replace(r, block_ids=(*r.block_ids[:1], -1, *r.block_ids[2:])) for r in case.batch.requests[:1]
    ]
    requests = [*lacking, *case.batch.requests[1:]]
    return valid(partial(edited, case, requests, case.layout.row_index)) or case


def whole(order: str, head_format: str, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts that fill pages of one kind, each one more, and begin another."""
    paged = _paged(order, head_format, ladder)
    if paged is None or WHOLE not in paged.sizes:
        return None
    lens: list[Lens] = [("prefill", WHOLE * b, WHOLE * (1 + b) + 5 * b) for b in range(count)]
    wide = paged.unlimited.preferring(num_heads=2, **SCALES)
    return wide.step(lens, seed=count, padding=(0, 0), block_size=WHOLE)


def _paged(order: str, head_format: str, ladder: Ladder) -> Ladder | None:
    """Return the ladder of cases in pages of one kind, with the first widths that they may have."""
    options = {"page_order": order, "head_format": head_format}
    wide = (ladder.under(**options, head_dims=dims) for dims in DIMS)
    return next((one for one in wide if one is not None), None)


def _fits(order: str, head_format: str) -> bool:
    return any(fits(head_format, order, dims, size) for dims, size in product(DIMS, (16, 64)))


_SMALL: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    f"a few in pages of {head_format}, {order}{', windowed' * windowed}": (
        partial(small, order, head_format, windowed),
        (len(LENS),),
    )
    for windowed, head_format, order in product((False, True), HEAD_FORMATS, PAGE_ORDERS)
    if _fits(order, head_format)
}
SMALL: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    **_SMALL,
    **{
        f"whole pages of {head_format}, {order}": (partial(whole, order, head_format), (2,))
        for head_format, order in product(SCALED, PAGE_ORDERS)
        if _fits(order, head_format)
    },
}
"""By name: what builds the case, and its size."""
