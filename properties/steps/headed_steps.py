"""Steps in pages as models have them: their heads, windows, and the pages of hybrid models."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from cumae.oracle import PAGE_ORDERS, Case
from cumae.properties.steps.crowds import uneven_decodes
from cumae.properties.steps.ladder import Ladder

Steps = tuple[Callable[[Ladder, int], Case | None], Sequence[int]]
HEADS = ((8, 128), (4, 128), (16, 64), (2, 256))
"""Heads of a token on one rank, and numbers of each, as released models have them."""
PAGES = (
    *product(("NHD", "HND"), ("bf16", "fp8")),
    ("packed", "bf16"),
    ("shuffled", "bf16"),
    ("NHD", "fp8_own"),
)
"""Orders and formats of their pages."""
ODD_HEADS = (
    ((8, 128), "packed", "fp8"),
    ((8, 64), "shuffled", "fp8"),
    ((1, 512), "NHD", "bf16"),
    ((1, 512), "NHD", "fp8"),
    ((10, 128), "HND", "bf16"),
    ((10, 128), "NHD", "fp8"),
    ((5, 64), "NHD", "fp8"),
    ((5, 128), "HND", "fp8"),
)
"""Some in pages that fewer engines have, that are wider, or whose number is no power of two."""
HYBRID, HYBRID_PAGES = (2, 256), (656, 1_056)
"""Heads of hybrid models, and tokens of their pages."""
WINDOWED = (((8, 64), 128, (35, 19)), ((2, 256), 1_024, (14,)))
"""Heads of models with windows, their window, and sizes of steps."""
SMALL_HEADS, PAGE = (4, 32), 64
"""Heads behind a window in pages of each order and format, and the size of these pages."""
SIZES = (76, 35, 19)


def with_heads(
    order: str,
    head_format: str,
    heads: tuple[int, int],
    ladder: Ladder,
    count: int,
    *,
    value_dim: int = 0,
    window: int = 0,
    block_size: int = 0,
) -> Case | None:
    """Return a case of more than ``count`` tokens in pages of one kind. ``heads``: how many, and how wide.

    ``value_dim``: the width of values, 0 for that of keys. ``window``: one that every decode is beyond; 0 for
    any. ``block_size``: 0 for the usual one.
    """
    num_heads, dim = heads
    options = {"page_order": order, "head_format": head_format, "head_dims": (dim, value_dim or dim)}
    limits = {"window": window} if window else {}
    if (paged := ladder.under(**options, **limits)) is None:
        return None
    counted = paged.having("num_heads", num_heads) or paged
    if block_size and block_size not in counted.sizes:
        return None
    lens = uneven_decodes(count - 9, window + 5, spread=30)
    lens.append(("prefill", window + 9, 12))
    if not window:
        lens.append(("prefill", 0, 3))
    return counted.step(lens, seed=count, padding=(0, 0), block_size=block_size)


def _kept(heads: tuple[int, int], order: str, head_format: str) -> tuple[str, Steps]:
    """Return a name, what builds a step of these heads in these pages, and its sizes."""
    name = f"{heads[0]} heads of {heads[1]} in {head_format}, {order}"
    return name, (partial(with_heads, order, head_format, heads), SIZES)


def _hybrid(head_format: str, block_size: int) -> tuple[str, Steps]:
    build = partial(with_heads, "NHD", head_format, HYBRID, block_size=block_size)
    return f"{HYBRID[0]} heads of {HYBRID[1]} in {head_format}, pages of {block_size}", (build, SIZES[1:])


def _windowed(
    heads: tuple[int, int], window: int, sizes: Sequence[int], head_format: str
) -> tuple[str, Steps]:
    build = partial(with_heads, "NHD", head_format, heads, window=window)
    return f"{heads[0]} heads of {heads[1]} in {head_format}, windows of {window}", (build, sizes)


def _in_any_pages(order: str, head_format: str) -> tuple[str, Steps]:
    """Return a name, what builds a step of few heads beyond a window in these pages, and its sizes."""

    def build(ladder: Ladder, count: int) -> Case | None:
        size = ladder.nearest_block(PAGE)
        return with_heads(order, head_format, SMALL_HEADS, ladder, count, window=128, block_size=size)

    return f"windows in pages of {head_format}, {order}", (build, (19,))


_PAGED = [_kept(heads, *pages) for heads, pages in product(HEADS, PAGES)]
OF_HEADS: Mapping[str, Steps] = dict(
    (
        *_PAGED[::2],
        *(_kept(*odd) for odd in ODD_HEADS),
        *(_in_any_pages(*pages) for pages in product(PAGE_ORDERS, ("fp8", "bf16"))),
        *(_in_any_pages(*pages) for pages in product(PAGE_ORDERS[:3], ("int8_own", "fp8_own"))),
        *(_hybrid(*pages) for pages in product(("bf16", "fp8"), HYBRID_PAGES)),
        *(_windowed(*model, head_format) for model, head_format in product(WINDOWED, ("bf16", "fp8"))),
        *_PAGED[1::2],
    )
)
"""By name: what builds the case of a size, and the sizes; each width and each kind of page comes early."""
