"""Steps in pages and in latent rows of each format, and of routers with each kind of logits and biases."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from cumae.oracle import BIAS_KINDS, HEAD_FORMATS, LOGITS_KINDS, PAGE_ORDERS, ROW_FORMATS, Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.narrowed import RouterShape

Steps = Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]]
HEADS: Sequence[Mapping[str, Any]] = (
    {"num_heads": 8, "head_dims": (64, 64)},
    {"num_heads": 8, "head_dims": (64, 128)},
)
"""Heads of a token; the second where keys and values may have other widths, and their pages no window."""
WINDOW, PAGE = 128, 64
"""Keys of a window that one request is beyond, and tokens of a page."""
LONG, DEEP = 1_030, 4_100
"""New tokens of a chunk, and cached ones of a long prefix."""
PADDED = 67
"""Padded tokens, and padded slots."""
GROUPED = ("packed", "shuffled")
"""Orders in which pages have no scales of their own."""
DRAFTED = 3
"""New tokens of a decode that verifies drafts."""


def in_pages_of(
    order: str, head_format: str, window: int, heads: Mapping[str, Any], ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` requests in pages of one kind, of which one is behind more than a window."""
    chosen = ladder.under(page_order=order, head_format=head_format, **heads)
    if chosen is None:
        return None
    if window and (chosen := chosen.having("window", window)) is None:
        return None
    lens = uneven_decodes(count - 3, 5, spread=20)
    lens[2:2] = [("decode", WINDOW + 12, 1), ("prefill", 20, 12), ("prefill", 0, 3)]
    chosen = chosen if window else chosen.unlimited
    return chosen.step(lens, seed=count, padding=(0, 0), block_size=chosen.nearest_block(PAGE))


def in_rows(row_format: str, pages: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` drafting requests and a chunk in wide latent rows, beside padded slots."""
    rows = ladder.in_rows_of(row_format)
    if rows is None or pages not in rows.sizes:
        return None
    lens: list[Lens] = [("decode", 20 + mixed(b) % 30, DRAFTED) for b in range(count)]
    lens += [("decode", 33, 1), ("prefill", 30, 40)]
    layout: dict[str, Any] = {}
    if rows.domain.padding != "none":
        layout = {"num_padding_tokens": PADDED, "num_padding_requests": 0}
        layout |= {"num_padding_slots": PADDED} if "num_padding_slots" in rows.features else {}
    return rows.case(lens, seed=count, block_size=pages, **layout)


def drafts_in_rows(row_format: str, world: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of three tokens each in wide latent rows, on ranks."""
    rows = ladder.in_rows_of(row_format)
    chosen = None if rows is None else rows.under(**({"world": world, "interleave": 1} if world > 1 else {}))
    lens: list[Lens] = [("decode", 20 + mixed(b) % 30, DRAFTED) for b in range(count)]
    return None if chosen is None else chosen.step(lens, seed=count + world, padding=(0, 0))


def lone_in_rows(
    row_format: str, powers: bool, cached: int, new: int, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` prefills in wide latent rows: of cached tokens, new ones, or both."""
    rows = ladder.in_rows_of(row_format)
    chosen = None if rows is None else rows.unlimited
    if powers:
        chosen = None if chosen is None else chosen.having("power_of_two_scales", powers)
    short: Lens = ("prefill", min(cached, 70), min(new, 9))
    lens: list[Lens] = [("prefill", cached, new), *[short] * (count - 1)]
    return None if chosen is None else chosen.step(lens, seed=cached + new, padding=(0, 0))


def routed_by_each(
    shape: RouterShape, logits: str, bias: str, turn: int, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` tokens and a router of this shape, with logits and biases of these kinds.

    Their types, the factor of the weights and whether they are renormalised differ between turns.
    """
    router = ladder.routing(shape, logits, bias=bias)
    if router is None:
        return None
    logits_dtype, bias_dtype = DTYPES[turn % len(DTYPES)]
    scaling, renormalize = (1_000, 2_500)[turn // 3 % 2], turn // 6 % 3 != 0
    weights = {"scaling_thousandths": scaling, "renormalize": renormalize}
    return router.preferring(logits_dtype=logits_dtype, bias_dtype=bias_dtype, **weights).tokens(count, 0)


DTYPES = (("fp32", "fp32"), ("bf16", "fp32"), ("bf16", "bf16"))
"""Types of logits and of biases."""
TILE = 33
"""Tokens of which a tile has fewer."""
ROUTERS: Sequence[RouterShape] = (
    (256, 8, 4, 8),
    (384, 1, 1, 8),
    (128, 1, 1, 8),
    (64, 1, 1, 6),
    (512, 1, 1, 10),
    (160, 8, 3, 6),
)
"""Routers of models that are served most."""


def _routed() -> Steps:
    """Return steps of each router with each kind of logits, and of biases, such that all come early."""
    found: dict[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {}
    for turn, shape in product(range(len(DTYPES)), ROUTERS):
        for count in (1, TILE):
            name = f"{count} routed to {shape[3]} of {shape[0]} experts, {DTYPES[turn]}"
            found[name] = partial(routed_by_each, shape, "negative", "as_logits", turn), (count,)
    kinds = [(logits, "as_logits") for logits in LOGITS_KINDS] + [("random", bias) for bias in BIAS_KINDS[1:]]
    for turn in range(len(kinds) * len(ROUTERS)):
        row, at = divmod(turn, len(kinds))
        (logits, bias), shape = kinds[at], ROUTERS[(at + row) % len(ROUTERS)]
        name = f"{shape[0]} experts, {shape[3]} of them, routed by {logits} and biases {bias}"
        found[name] = partial(routed_by_each, shape, logits, bias, mixed(turn)), (5, 2)
    return found


EACH_PAGE: Steps = {
    f"{heads['head_dims'][1]} values in pages of {head_format}, {order}{', windowed' if window else ''}": (
        partial(in_pages_of, order, head_format, window, heads),
        (12, 9),
    )
    for heads, window in ((HEADS[0], 0), (HEADS[0], WINDOW), (HEADS[1], 0))
    for order, head_format in product(PAGE_ORDERS, HEAD_FORMATS)
    if not (order in GROUPED and "own" in head_format)
}
EACH_ROW: Steps = {
    **{
        f"{cached} and {new} rows of {kind}{' in powers of two' * powers}": (
            partial(lone_in_rows, kind, powers, cached, new),
            sizes,
        )
        for cached, new, sizes in ((DEEP, 20, (1,)), (30, LONG, (1,)), (130, 0, (3, 1)), (0, 90, (3, 1)))
        for kind, powers in (*((kind, False) for kind in ROW_FORMATS), ("fp8", True))
    },
    **{
        f"drafts in rows of {kind} on {world} ranks": (partial(drafts_in_rows, kind, world), (35, 9))
        for kind in ROW_FORMATS
        for world in (2, 1)
    },
    **{
        f"drafts in rows of {kind} in pages of {pages}": (partial(in_rows, kind, pages), (35, 9))
        for kind in ROW_FORMATS
        for pages in (64, 1, 256)
    },
}
EACH_ROUTER: Steps = _routed()
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
