"""Keys and values of several heads, new and in the pages of a cache, as tensors of opaque rows."""

from functools import lru_cache, partial
from itertools import compress, cycle
from typing import Any

import numpy as np

from cumae.oracle import Case, HeadFormat, Inputs, PageWrite, page_units, scaled_head
from cumae.oracle.model.heads import Heads
from cumae.properties.dialects.held import ITEM_BYTES, ByteArray, Rows, rows, seed_in_step
from cumae.properties.dialects.latents import hard_to_quantise
from cumae.properties.dialects.odd_rows import with_odd_rows
from cumae.properties.dialects.output import Output, Piece

_GAP = 16
"""Bytes for each element of a gap between pages of bytes, so that scales stay on multiples of 4."""


def page_dtype(case: Case) -> str:
    """Return the dtype of a cache of pages."""
    kind = case.options.heads.head_format
    return kind if kind in ITEM_BYTES else "uint8"


def page_shape(case: Case) -> tuple[int, int, int]:
    """Return blocks, units of a page, and elements of a unit."""
    heads = case.options.heads
    items = heads.unit_bytes // ITEM_BYTES[page_dtype(case)]
    return case.num_cache_blocks, case.batch.block_size * heads.token_units, items


def pages_before(inputs: Inputs) -> Rows:
    """Return the pages that new keys and values are written into; nothing in them is live."""
    return _untouched(inputs.case, page_shape(inputs.case))


def page_strides(case: Case, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the strides of pages of this shape: a case may have gaps between them."""
    gap = case.layout.cache_block_gap * (_GAP if page_dtype(case) == "uint8" else 1)
    return (shape[1] * shape[2] + gap) * (1 + case.layout.cache_in_turns), shape[2], 1


def _untouched(case: Case, shape: tuple[int, int, int]) -> Rows:
    nothing = np.zeros((0, 2), dtype=np.int64)
    return rows(shape, page_dtype(case), page_strides(case, shape), nothing, case.layout.garbage, seed=4)


def new_keys(inputs: Inputs) -> Rows:
    """Return the keys of new tokens [max_num_tokens, num_heads, head_dim]."""
    return _new(inputs, inputs.case.options.heads.head_dim, inputs.case.layout.new_row_gap, seed=5)


def new_values(inputs: Inputs) -> Rows:
    """Return the values of new tokens [max_num_tokens, num_heads, value_dim]."""
    return _new(inputs, inputs.case.options.heads.value_dim, inputs.case.layout.key_row_gap, seed=6)


def _new(inputs: Inputs, dim: int, gap: int, seed: int) -> Rows:
    case, heads = inputs.case, inputs.case.options.heads
    dtype = "bf16" if heads.is_scaled else page_dtype(case)
    tokens, one = np.arange(case.batch.num_tokens, dtype=np.int64), np.arange(heads.num_heads)
    live = np.stack([np.repeat(tokens, heads.num_heads), np.tile(one, len(tokens))], axis=1)
    shape = (case.max_num_tokens, heads.num_heads, dim)
    strides = (heads.num_heads * dim + gap, dim, 1)
    held = rows(shape, dtype, strides, live, case.layout.garbage, seed_in_step(inputs, seed))
    if heads.is_scaled:
        bits = held.content.view(np.uint16)
        for i, (token, head) in enumerate(live.tolist()):
            bits[i] = hard_to_quantise(bits[i], 5 * token + 2 * head + seed)
    return with_odd_rows(held, live[:, 0], finite=heads.is_scaled) if heads.odd_heads else held


def _keys_as_cached(case: Case, content: ByteArray) -> ByteArray:
    return _as_cached(case, content, case.options.heads.key_scale)


def _values_as_cached(case: Case, content: ByteArray) -> ByteArray:
    return _as_cached(case, content, case.options.heads.value_scale)


def _as_cached(case: Case, content: ByteArray, scale: float) -> ByteArray:
    """Return keys or values as the cache holds them: unchanged, or as the oracle's bytes."""
    heads = case.options.heads
    if not heads.is_scaled or not len(content):
        return content
    made = [_scaled(row.tobytes(), heads.head_format, scale) for row in content]
    return np.frombuffer(b"".join(made), dtype=np.uint8).reshape(len(content), -1)


@lru_cache(maxsize=2**16)
def _scaled(numbers: bytes, head_format: HeadFormat, scale: float) -> bytes:
    """Return what the oracle makes of a head; the variants of a case hold the same heads."""
    return scaled_head(np.frombuffer(numbers, dtype=np.uint16).tolist(), head_format, scale)


def two_caches(keys: str, values: str) -> tuple[Output, ...]:
    """Return the forms ``key_cache`` and ``value_cache`` of pages; joined pages are those of ``NHD`` here.

    ``keys``, ``values``: the names of the new ones.
    """
    return tuple(
        Output(
            f"{kind}_cache",
            follows="pages",
            axis=f"{kind}_page_unit",
            shape=partial(plane_shape, kind),
            expect=partial(_plane, kind),
            before=partial(_plane_before, kind),
            pieces=pieces_of(keys, values),
            is_captured=False,
        )
        for kind in ("key", "value")
    )


def _plane_before(kind: str, inputs: Inputs) -> Rows:
    return _untouched(inputs.case, plane_shape(kind, inputs.case))


def plane_shape(kind: str, case: Case) -> tuple[int, int, int]:
    """Return blocks, units of a page that are of this kind, and elements of a unit."""
    heads, (blocks, _, items) = case.options.heads, page_shape(case)
    units = heads.key_units if kind == "key" else heads.value_units
    return blocks, case.batch.block_size * heads.num_heads * units, items


def _plane(kind: str, answer: PageWrite, inputs: Inputs) -> list[Any]:
    """Return the units of the pages that belong to keys, or to values."""
    heads, case = inputs.case.options.heads, inputs.case
    return list(compress(answer.pages, cycle(_units_of(kind, heads, case.batch.block_size))))


@lru_cache(maxsize=16)
def _units_of(kind: str, heads: Heads, size: int) -> list[bool]:
    """Return whether each unit of a page belongs to keys, or to values."""
    sizes = (heads.num_heads, heads.key_units, heads.value_units, heads.group_items)
    return [unit[0] == kind for unit in page_units(heads.page_order, size, *sizes)]


def pieces_of(keys: str, values: str) -> dict[str, Piece]:
    """Return the sources of units, by the names of the new keys and values."""
    return {
        "key": Piece(keys, encode=_keys_as_cached, in_units=True),
        "value": Piece(values, encode=_values_as_cached, in_units=True),
    }
