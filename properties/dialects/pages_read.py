"""Pages of a cache that are read: what they hold, and what the keys and values gathered from them are."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from cumae.oracle import Case, Inputs, page_units, restored_number
from cumae.oracle.model.heads import Heads
from cumae.properties.dialects.heads import page_dtype, page_shape, page_strides, plane_shape
from cumae.properties.dialects.held import ByteArray, IntArray, Rows, rows, seed_in_step
from cumae.properties.dialects.odd_rows import with_odd_rows
from cumae.properties.dialects.output import Output, Piece, Place


def read_dtype(case: Case) -> str:
    """Return the dtype of gathered keys and values: fp8 with a given scale becomes bf16."""
    return "bf16" if case.options.heads.head_format == "fp8" else page_dtype(case)


def held_pages(inputs: Inputs) -> Rows:
    """Return the pages of a step's cache; the units that the step reads are live, in fp8 they are numbers."""
    case, shape = inputs.case, page_shape(inputs.case)
    heads, size = case.options.heads, case.batch.block_size
    slots = inputs.once("slots read", lambda: _slots_read(case))
    order = _places_of_tokens(heads, size)
    live = np.empty((len(slots), order.shape[1], 2), dtype=np.int64)
    live[..., 0], live[..., 1] = slots[:, None] // size, order[slots % size]
    held = rows(
        shape,
        page_dtype(case),
        page_strides(case, shape),
        live.reshape(-1, 2),
        case.layout.garbage,
        seed_in_step(inputs, 7),
    )
    if case.options.heads.head_format == "fp8":
        held.content[(held.content & 0x7F) == 0x7F] ^= 1
    tokens = np.repeat(np.arange(len(slots), dtype=np.int64), order.shape[1])
    return with_odd_rows(held, tokens) if heads.odd_heads else held


def _slots_read(case: Case) -> IntArray:
    """Return the slots of the keys that a step reads, each once, in ascending order."""
    size, window, rows = case.batch.block_size, case.options.keys.window, case.layout.row_index
    slots = [np.empty(0, dtype=np.int64)]
    for b, request in enumerate(case.batch.requests):
        if rows is None or rows[b] >= 0:
            first = max(request.seq_len - window, 0) if window else 0
            position = np.arange(first, request.seq_len)
            blocks = np.array(request.block_ids, dtype=np.int64)[position // size]
            slots.append((blocks * size + position % size)[blocks >= 0])
    return np.unique(np.concatenate(slots))


@lru_cache(maxsize=16)
def _places_of_tokens(heads: Heads, size: int) -> IntArray:
    """Return the units of each token of a page, [tokens, units], by their places in the order of memory."""
    sizes = (heads.num_heads, heads.key_units, heads.value_units, heads.group_items)
    tokens = np.array([unit[1] for unit in page_units(heads.page_order, size, *sizes)])
    return np.argsort(tokens, kind="stable").reshape(size, -1)


def held_plane(kind: str, inputs: Inputs) -> Rows:
    """Return the keys, or the values, of the pages of a step's cache, as a cache of their own."""
    case, pages = inputs.case, held_pages(inputs)
    is_keys, places = _planes(case.options.heads, case.batch.block_size)
    kept = is_keys[pages.live[:, 1]] == (kind == "key")
    live = pages.live[kept]
    live[:, 1] = places[live[:, 1]]
    shape = plane_shape(kind, case)
    return Rows(shape, pages.dtype, page_strides(case, shape), live, pages.content[kept], pages.fill)


@lru_cache(maxsize=16)
def _planes(heads: Heads, size: int) -> tuple[np.ndarray, IntArray]:
    """Return whether each unit of a page is one of a key, and its place in the keys, or in the values."""
    sizes = (heads.num_heads, heads.key_units, heads.value_units, heads.group_items)
    is_keys = np.array([unit[0] == "key" for unit in page_units(heads.page_order, size, *sizes)])
    return is_keys, np.where(is_keys, np.cumsum(is_keys), np.cumsum(~is_keys)) - 1


def in_plane(case: Case, sources: IntArray) -> IntArray:
    """Return units of pages [rows, 2] by their places in the keys, or in the values."""
    _, places = _planes(case.options.heads, case.batch.block_size)
    return np.stack([sources[:, 0], places[sources[:, 1]]], axis=1)


def gathered_from_plane(kind: str, name: str, plane: str, place: Place = in_plane) -> Output:
    """Return the output of gathered keys or values, from a ``plane`` of the pages; no row is dropped.

    ``place`` returns where units of the pages lie in it.
    """
    return replace(gathered(kind, name, plane, place=place), carries=(), is_captured=False)


def gathered(
    kind: str, name: str = "", pages: str = "pages", rule: str = "", place: Place | None = None
) -> Output:
    """Return the output of gathered keys or values, under another ``name`` and from other ``pages``."""
    field = f"{kind}s"
    return Output(
        name or field,
        read_dtype,
        f"read_{kind}",
        rule,
        shape=partial(_read_shape, kind),
        follows=field,
        pieces={"page": Piece(pages, encode=partial(_as_read, kind), place=place)},
        carries=("key_slack",),
    )


def _read_shape(kind: str, case: Case) -> tuple[int, int, int]:
    """Return rows, units of a row, and elements of a unit."""
    heads = case.options.heads
    units = heads.key_units if kind == "key" else heads.value_units
    return case.read_capacity, heads.num_heads * units, page_shape(case)[2]


def _as_read(kind: str, case: Case, content: ByteArray) -> ByteArray:
    """Return units as they are read: unchanged, or as bf16 numbers of the oracle."""
    heads = case.options.heads
    if heads.head_format != "fp8":
        return content
    numbers = _numbers(heads.key_scale if kind == "key" else heads.value_scale)
    return numbers[content].view(np.uint8).reshape(len(content), -1)


@lru_cache(maxsize=16)
def _numbers(scale: float) -> np.ndarray:
    """Return the bf16 number of each byte of fp8, as bits; no page that is read holds the two NaN."""
    is_number = [code & 0x7F != 0x7F for code in range(256)]
    bits = [restored_number(code, scale) if is_number[code] else 0 for code in range(256)]
    return np.array(bits, dtype=np.uint16)
