"""The keys, or the values, of tokens copied between pages and rows, in the widest words that both allow.

A grain is a unit of up to 16 bytes that stands together on both sides. In pages whose last axis is tokens,
only the rows have grains, and threads run along tokens, one element each.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.copy_grain import WORDS_OF_GRAIN
from cumae.gpu_impl.e4m3 import bf16_to_e4m3, e4m3_to_bf16
from cumae.gpu_impl.page_orders import Plane

# The bytes of a grain in pages, and how many words a program copies of a row at a time. Few are enough: each
# takes a compile. An fp8 number is a word, and a grain has twice as many bytes in rows.
COLUMNS_OF_GRAIN = {16: 32, 4: 32, 2: 64, 1: 64}
COLUMNS_OF_FP8_GRAIN = {8: 128, 1: 64}
COLUMNS_OF_TOKENS = 64
# Rows and warps of a program; with tokens last, more rows are neighbours in pages.
ROWS, NUM_WARPS = 32, 4
ROWS_OF_TOKENS, NUM_WARPS_OF_TOKENS = 64, 8
# A row is divided among programs until there are so many.
ENOUGH_PROGRAMS = 512


class PlaneCopies(NamedTuple):
    """How two planes are copied. key, value: the sizes of `copy_plane`; columns, words: also those of tokens.

    passes: in how many steps of columns the wider row is copied.
    """

    key: tuple[int, ...]
    value: tuple[int, ...]
    word: tl.dtype
    words: int
    columns: int
    token_words: int
    tokens_last: bool
    passes: int

    def rows(self) -> int:
        """Return the rows of a program."""
        return ROWS_OF_TOKENS if self.tokens_last else ROWS

    def num_warps(self) -> int:
        """Return the warps of a program."""
        return NUM_WARPS_OF_TOKENS if self.tokens_last else NUM_WARPS

    def grid(self, num_tiles: int) -> tuple[int, int, int]:
        """Return the programs for tiles of rows, planes, and parts of a row."""
        return num_tiles, 2, max(1, min(self.passes, ENOUGH_PROGRAMS // (2 * num_tiles)))


@triton.jit
def copy_plane(
    pages: tl.tensor,
    rows: tl.tensor,
    place: tl.tuple,
    sizes: tl.tuple,
    scale: tl.tensor,
    TO_PAGES: tl.constexpr,
    WORD: tl.constexpr,
    WORDS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    HAS_FP8: tl.constexpr,
) -> None:
    """Copy all heads of tokens to or from rows. Bytes for rows of 16 bits are fp8 numbers.

    place: rows, which of them are read, which are written, and the block and token of each; sizes: of rows in
    grains, of pages in grains or, with tokens last, elements. Program i of axis 2 copies every i-th part.
    """
    o_row, m_read, m_written, block_id, token = place
    row_stride, row_grains, head, page_stride, base, head_stride = sizes[:6]
    token_stride, dim_stride, token_shift, dim_shift = sizes[6:]
    IS_FP8: tl.constexpr = pages.dtype.element_ty != rows.dtype.element_ty
    ROW_WORD: tl.constexpr = tl.int16 if IS_FP8 else WORD
    PAGE_WORDS: tl.constexpr = 1 if TOKENS_LAST else WORDS
    o_token = base + (token >> token_shift) * token_stride + (token & ((1 << token_shift) - 1))
    o_token = (block_id * page_stride + o_token) * PAGE_WORDS
    page = pages.to(tl.pointer_type(WORD)) + o_token
    row = rows.to(tl.pointer_type(ROW_WORD)) + o_row * row_stride * WORDS
    # Without this, the type of a pointer is all that is known of its address.
    page = tl.multiple_of(page, PAGE_WORDS * (WORD.primitive_bitwidth // 8))
    row = tl.multiple_of(row, WORDS * (ROW_WORD.primitive_bitwidth // 8))
    # Threads run along the last axis first. Accesses to rows find their own order: elements are neighbours.
    ROW_AXIS: tl.constexpr = 1 if TOKENS_LAST else 0
    page, row = tl.expand_dims(page, 1 - ROW_AXIS), tl.expand_dims(row, 1 - ROW_AXIS)
    m_read, m_written = tl.expand_dims(m_read, 1 - ROW_AXIS), tl.expand_dims(m_written, 1 - ROW_AXIS)
    i_first, step = tl.program_id(2) * COLUMNS, tl.num_programs(2) * COLUMNS
    for i_word in range(i_first, row_grains * WORDS, step):
        o_word = i_word + tl.arange(0, COLUMNS)
        m_word = tl.expand_dims(o_word // WORDS < row_grains, ROW_AXIS)
        o_unit = o_word // PAGE_WORDS
        i_head, i_unit = (o_unit // head).to(tl.int64), (o_unit % head).to(tl.int64)
        o_page = i_head * head_stride + (i_unit >> dim_shift) * dim_stride + (i_unit & ((1 << dim_shift) - 1))
        in_page = page + tl.expand_dims(o_page * PAGE_WORDS + o_word % PAGE_WORDS, ROW_AXIS)
        in_row = row + tl.expand_dims(o_word, ROW_AXIS)
        if TO_PAGES:
            # Read before the slot is known: a row without a slot is read too, and not written.
            word = tl.load(in_row, mask=m_read & m_word, other=0)
            if IS_FP8:
                word = bf16_to_e4m3(tl.where(m_written, word, 0), scale, HAS_FP8)
            tl.store(in_page, word, mask=m_written & m_word)
        else:
            word = tl.load(in_page, mask=m_read & m_word, other=0)
            if IS_FP8:
                word = e4m3_to_bf16(word, scale, HAS_FP8)
            tl.store(in_row, word, mask=m_written & m_word)


@triton.jit
def copy_planes(
    pages: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    place: tl.tuple,
    key: tl.tuple,
    value: tl.tuple,
    key_scale: tl.tensor,
    value_scale: tl.tensor,
    TO_PAGES: tl.constexpr,
    WORD: tl.constexpr,
    WORDS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKEN_WORDS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    TOKEN_COLUMNS: tl.constexpr,
    HAS_FP8: tl.constexpr,
) -> None:
    """Copy the keys of tokens to or from rows in programs 0 of axis 1, and the values in programs 1."""
    if tl.program_id(1) == 0:
        copy_plane(pages, keys, place, key, key_scale, TO_PAGES, WORD, WORDS, COLUMNS, False, HAS_FP8)
    elif TOKENS_LAST:
        ELEMENT: tl.constexpr = pages.dtype.element_ty
        copy_plane(
            pages,
            values,
            place,
            value,
            value_scale,
            TO_PAGES,
            ELEMENT,
            TOKEN_WORDS,
            TOKEN_COLUMNS,
            True,
            HAS_FP8,
        )
    else:
        copy_plane(pages, values, place, value, value_scale, TO_PAGES, WORD, WORDS, COLUMNS, False, HAS_FP8)


def plane_copies_of(
    planes: tuple[Plane, Plane], num_heads: int, pages: torch.Tensor, rows: tuple[torch.Tensor, torch.Tensor]
) -> PlaneCopies:
    """Return how keys and values are copied between pages and rows [count, …], any stride between rows."""
    item, is_copy = pages.element_size(), pages.dtype == rows[0].dtype
    tokens_last = planes[1].dims == 1 and planes[1].dim != 1
    page_stride = pages.stride(0) if pages.shape[0] > 1 else 0
    widths = [math.prod(row.shape[1:]) for row in rows]
    key, value = (
        _merged(plane, width // num_heads, width) for plane, width in zip(planes, widths, strict=True)
    )
    strides = [row.stride(0) if row.shape[0] > 1 else 0 for row in rows]
    edges = [pages.data_ptr() // item, page_stride, *_edges_of(*key), *widths, *strides]
    edges += [row.data_ptr() // row.element_size() for row in rows] + (
        [] if tokens_last else _edges_of(*value)
    )
    columns_of_grain = COLUMNS_OF_GRAIN if is_copy else COLUMNS_OF_FP8_GRAIN
    grain = math.gcd(16 // item, *edges) * item
    grain = max(size for size in columns_of_grain if grain % size == 0)
    n = grain // item
    word, words = WORDS_OF_GRAIN[grain] if is_copy else (tl.uint8, n)
    columns = columns_of_grain[grain]
    sizes = [
        (stride // n, width // n, *_units_of(page_stride, *plane, 1 if tokens_last and i else n))
        for i, (stride, width, plane) in enumerate(zip(strides, widths, (key, value), strict=True))
    ]
    grains_of_pass = columns // words, COLUMNS_OF_TOKENS // n if tokens_last else columns // words
    passes = max(-(-size[1] // grains) for size, grains in zip(sizes, grains_of_pass, strict=True))
    return PlaneCopies(sizes[0], sizes[1], word, words, columns, n, tokens_last, passes)


def _merged(plane: Plane, head: int, width: int) -> tuple[Plane, int]:
    """Return a plane and the elements of its heads; heads that stand together become one."""
    if plane.dims == plane.dim == 1 and head in (plane.head, width):
        return plane._replace(head=0), width
    return plane, head


def _edges_of(plane: Plane, head: int) -> list[int]:
    """Return the elements that a grain must divide to stand together in pages."""
    return [head, *plane[:3], *((plane.dim, plane.dims) if plane.dims > 1 else ())]


def _units_of(page_stride: int, plane: Plane, head: int, n: int) -> tuple[int, ...]:
    """Return the sizes of `copy_plane` in pages, in units of n elements."""
    dim, dims = (plane.dim // n, plane.dims // n) if plane.dims > 1 else (plane.dim, 1)
    units = (edge // n for edge in (head, page_stride, *plane[:3]))
    return *units, dim, plane.tokens.bit_length() - 1, dims.bit_length() - 1
