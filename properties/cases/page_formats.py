"""The formats, orders and block sizes that pages of keys and values may have together in a domain."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cumae.oracle import HEAD_FORMATS, PAGE_ORDERS
from cumae.oracle.model.heads import Heads
from cumae.oracle.model.rules import require

if TYPE_CHECKING:
    from cumae.properties.cases.domain import Domain

HEAD_DIMS = (
    *((16, 16), (16, 16), (8, 8), (48, 48), (12, 12), (3, 3), (1, 1), (64, 64), (128, 128), (528, 528)),
    *((32, 32), (72, 72), (80, 80), (96, 96), (160, 160), (192, 128), (256, 256), (512, 512)),
    *((16, 4), (48, 16), (128, 4), (8, 130), (3, 2), (576, 8)),
)
"""Numbers of a key and of a value."""
VARIED = frozenset({"head_format", "page_order", "head_dims"})
"""The features of a page that decide which sizes it can have."""
RULE = "hold one that pages of a promised order and format can have"
Formats = Sequence[str]
Orders = Sequence[str]
Dims = Sequence[tuple[int, int]]


@lru_cache(maxsize=4096)
def fits(head_format: str, page_order: str, dims: tuple[int, int], block_size: int) -> bool:
    """Return whether pages of so many tokens can hold keys and values like these in this order."""
    chosen: dict[str, Any] = {"head_format": head_format, "page_order": page_order}
    try:
        heads = Heads(head_dim=dims[0], value_dim=dims[1], **chosen)
    except ValueError:
        return False
    return heads.fits_blocks_of(block_size)


def usual(domain: "Domain", features: Collection[str]) -> tuple[Formats, Orders, Dims]:
    """Return the formats, orders and dims of drawn pages, each promised; those of a settled field are one."""
    formats: Formats = (domain.settled("head_format"),)
    orders: Orders = (domain.settled("page_order"),)
    dims: Dims = ((domain.settled("head_dim"), domain.settled("value_dim")),)
    if "head_format" in features:
        formats = domain.among("head_format", HEAD_FORMATS)
    if "page_order" in features:
        orders = domain.among("page_order", PAGE_ORDERS)
    if "head_dims" in features:
        dims = domain.head_dims or HEAD_DIMS
    return formats, orders, dims


def fit_together(formats: Formats, orders: Orders, dims: Dims, block_size: int) -> bool:
    """Return whether some of these fit each other and the blocks."""
    return any(fits(f, order, both, block_size) for f in formats for order in orders for both in dims)


def fitting_sizes(domain: "Domain", features: Collection[str]) -> tuple[int, ...]:
    """Return the block sizes of a domain that pages of it can have, if only ``features`` vary."""
    if VARIED.isdisjoint(features) and "page_order" not in domain.values:
        return domain.sizes
    return tuple(size for size in domain.sizes if fit_together(*usual(domain, features), size))


def block_sizes(domain: "Domain", features: Collection[str]) -> tuple[int, ...]:
    """Return the block sizes of drawn cases. Raises ``ValueError`` if pages of the domain can have none."""
    found = fitting_sizes(domain, features)
    require(bool(found), "block_sizes", domain.block_sizes, RULE)
    return found


def forms_of(domain: "Domain", features: Collection[str]) -> list[tuple[str, str]]:
    """Return the orders of pages, each with the formats, that a domain promises and some page can have.

    Empty for a function that sees neither.
    """
    if not {"page_order", "head_format"} & {*features}:
        return []
    formats, orders, dims = usual(domain, features)
    return [
        (order, one)
        for order in orders
        for one in formats
        if any(fit_together((one,), (order,), dims, size) for size in domain.sizes)
    ]
