"""Draw keys and values of several heads that fit the blocks of a case, and whose pages are not too large."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cumae.oracle.model.heads import Heads
from cumae.properties.cases.draw import NEUTRAL, Draw
from cumae.properties.cases.page_formats import fit_together, usual

MOST_UNITS = 2**16
"""Most units of memory in a drawn cache, each of which the oracle names."""
MOST_BYTES = 2**24
"""Most bytes of a drawn cache."""
_FIELDS = ("head_format", "page_order", "num_heads", "head_dim", "value_dim")
_NEUTRAL = {name: getattr(Heads(), name) for name in _FIELDS}
HEAD_FEATURES = ("head_format", "page_order", "num_heads", "head_dims")
COPIED = ("bf16", "fp16", "fp32", "bytes")
MANY_ROWS, MOST_ROWS = 2**10, 2**14
"""More tokens than the first have the fewest heads and usual dims, and more than the second are copied: the
work of a token follows its heads, and large cases are about other sizes."""


def head_format(d: Draw) -> str:
    """Return a format that pages of a promised order, with blocks of this size, may have."""
    formats, orders, dims = usual(d.domain, d.features)
    size = d.batch.block_size
    fit = [one for one in formats if fit_together((one,), orders, dims, size)]
    copied = [one for one in fit if one in COPIED] if _num_tokens(d) > MOST_ROWS else []
    return str(d.choices.pick(copied or fit or [NEUTRAL["head_format"]]))


def page_order(d: Draw) -> str:
    """Return an order that pages of this format, with blocks of this size, may have."""
    _, orders, dims = usual(d.domain, d.features)
    formats, size = (d.values["head_format"],), d.batch.block_size
    fit = [one for one in orders if fit_together(formats, (one,), dims, size)]
    is_small = _small(d)
    small = [one for one in fit if is_small(page_order=one)]
    neutral = [one for one in fit if one == NEUTRAL["page_order"]]
    return str(d.choices.pick(small or neutral or fit or [NEUTRAL["page_order"]]))


def num_heads(d: Draw) -> int:
    """Return how many heads a token has."""
    counts = d.domain.among("num_heads", (1, 2, 3, 4, 5, 6, 8, 10, 12, 16))
    if _num_tokens(d) > MANY_ROWS:
        return int(min(counts))
    is_small = _small(d)
    return int(d.pick("num_heads", [n for n in counts if n == 1 or is_small(num_heads=n)] or [min(counts)]))


def head_dims(d: Draw) -> tuple[int, int]:
    """Return the numbers of a key and of a value: mostly as many, and whole groups where pages have them."""
    _, _, dims = usual(d.domain, d.features)
    chosen, size = ((d.values["head_format"],), (d.values["page_order"],)), d.batch.block_size
    fit = [both for both in dims if fit_together(*chosen, (both,), size)]
    is_small = _small(d)
    small = [(key, value) for key, value in fit if is_small(head_dim=key, value_dim=value)]
    neutral = (int(NEUTRAL["head_dim"]), int(NEUTRAL["value_dim"]))
    if _num_tokens(d) > MANY_ROWS:
        return neutral if neutral in fit else min(fit, key=sum, default=neutral)
    return d.choices.pick(small or fit[:1] or [neutral])


def scale(d: Draw, name: str) -> int:
    """Return the thousandths of a scale, for fp8. Of 15, a product with the reciprocal is no quotient."""
    scales = (1000, 125, 2827, 3, 15, 62, 1, 500_000)
    return int(d.pick(name, scales)) if d.values["head_format"] == "fp8" else 1000


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


def _num_tokens(d: Draw) -> int:
    """Return the tokens that a case has at most to read or write: new and cached ones, and padding."""
    return d.num_rows + sum(request.context_len for request in d.batch.requests)


def _small(d: Draw) -> Callable[..., bool]:
    """Return a function that says whether a cache with other fields, all valid, has few units and bytes."""
    largest = max((max(request.block_ids, default=0) for request in d.batch.requests), default=0)
    num_tokens = (1 + largest + d.layout.num_spare_blocks) * d.batch.block_size

    def is_small(**others: Any) -> bool:
        token_units, unit_bytes = _size(_heads(d, **others))
        units = num_tokens * token_units
        return units <= MOST_UNITS and units * unit_bytes <= MOST_BYTES

    return is_small
