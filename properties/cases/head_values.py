"""Draw keys and values of several heads that fit the blocks of a case, and whose pages are not too large."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cumae.oracle import PAGE_ORDERS
from cumae.oracle.model.heads import NEUTRAL_HEADS, Heads
from cumae.properties.cases.values import NEUTRAL, Draw

MOST_UNITS = 2**16
"""Most units of memory in a drawn cache, each of which the oracle names."""
MOST_BYTES = 2**24
"""Most bytes of a drawn cache."""
_FIELDS = ("head_format", "page_order", "num_heads", "head_dim", "value_dim")
_NEUTRAL = {name: getattr(NEUTRAL_HEADS, name) for name in _FIELDS}
HEAD_FEATURES = ("head_format", "page_order", "num_heads", "head_dims")
HEAD_DIMS = (
    *((16, 16), (16, 16), (8, 8), (48, 48), (12, 12), (3, 3), (1, 1), (64, 64), (128, 128), (528, 528)),
    *((16, 4), (48, 16), (128, 4), (8, 130), (3, 2), (576, 8)),
)
"""Numbers of a key and of a value."""


def page_order(d: Draw) -> str:
    """Return an order that pages of this format, with blocks of this size, may have."""
    heads = _heads(d)
    shuffles = d.batch.block_size % heads.group_items == 0
    fit = [o for o in PAGE_ORDERS if not heads.has_own_scales or o in PAGE_ORDERS[:3]]
    is_small = _small(d)
    usual = [order for order in fit if is_small(page_order=order)]
    return str(d.pick("page_order", usual, lambda o: o in fit and (shuffles or o != "shuffled")))


def num_heads(d: Draw) -> int:
    """Return how many heads a token has."""
    is_small = _small(d)
    return int(d.pick("num_heads", [1, *(n for n in (2, 3, 8) if is_small(num_heads=n))]))


def head_dims(d: Draw) -> tuple[int, int]:
    """Return the numbers of a key and of a value: mostly as many, and whole groups where pages have them."""
    heads = _heads(d)
    step = heads.group_items if heads.is_grouped else 4 if heads.has_own_scales else 1
    least = 4 if heads.has_own_scales else 1
    promised = d.domain.head_dims or HEAD_DIMS
    fit = [(key, value) for key, value in promised if key % step == 0 and value % least == 0]
    is_small = _small(d)
    small = [(key, value) for key, value in fit if is_small(head_dim=key, value_dim=value)]
    neutral = (int(NEUTRAL["head_dim"]), int(NEUTRAL["value_dim"]))
    return d.choices.pick(small or fit[:1] or [neutral])


def scale(d: Draw, name: str) -> int:
    """Return the thousandths of a scale, for fp8."""
    return int(d.pick(name, (1000, 125, 2827, 3))) if d.values["head_format"] == "fp8" else 1000


def _heads(d: Draw, **others: Any) -> Heads:
    """Return the fields drawn so far, these others, and neutral ones."""
    return _made(*(others.get(name, d.values.get(name, _NEUTRAL[name])) for name in _FIELDS))


@lru_cache(maxsize=4096)
def _made(*values: Any) -> Heads:
    return Heads(**dict(zip(_FIELDS, values, strict=True)))


@lru_cache(maxsize=4096)
def _size(heads: Heads) -> tuple[int, int]:
    """Return the units of a token's heads, and the bytes of a unit."""
    return heads.token_units, heads.unit_bytes


def _small(d: Draw) -> Callable[..., bool]:
    """Return a function that says whether a cache with other fields, all valid, has few units and bytes."""
    largest = max((max(request.block_ids, default=0) for request in d.batch.requests), default=0)
    num_tokens = (1 + largest + d.layout.num_spare_blocks) * d.batch.block_size

    def is_small(**others: Any) -> bool:
        token_units, unit_bytes = _size(_heads(d, **others))
        units = num_tokens * token_units
        return units <= MOST_UNITS and units * unit_bytes <= MOST_BYTES

    return is_small
