"""The keys, or the values, of tokens copied between pages and rows, in the widest words that both allow.

A grain is a unit of up to 16 bytes that stands together on both sides. In pages whose last axis is tokens,
only the rows have grains, and threads run along tokens, one element each.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.copy_grain import WORDS_OF_GRAIN
from cumae.gpu_impl.e4m3 import bf16_to_e4m3, e4m3_to_bf16
from cumae.gpu_impl.page_orders import Plane

# Bytes of a grain in pages, and the words of a row that a program copies at a time. There are few, because
# each takes a compile. An fp8 number is a word, and its grain has twice as many bytes in rows.
COLUMNS_OF_GRAIN = {16: 32, 4: 32, 2: 64, 1: 64}
COLUMNS_OF_FP8_GRAIN = {8: 128, 1: 64}
COLUMNS_OF_TOKENS = 64
# Rows and warps of a program. Short rows, and rows that are neighbours in pages, are taken by more. If there
# are many short rows, a program copies both keys and values, so that places are found once for both.
ROWS, NUM_WARPS = 32, 4
SHORT_GRAINS, SHORT_ROWS = 8, 64
MANY_SHORT, NUM_WARPS_OF_MANY = 16_384, 2
ROWS_OF_TOKENS, NUM_WARPS_OF_TOKENS = 64, 8
# A row is divided among programs until there are so many.
ENOUGH_PROGRAMS = 1024


class PlaneCopy(NamedTuple):
    """How a plane is copied: the sizes of `copy_plane`, and its constants."""

    sizes: tuple[int, ...]
    word: tl.dtype
    words: int
    columns: int


class PagesCopy(NamedTuple):
    """How keys and values are copied by tiles of `rows` rows. tokens_last: neighbouring values are tokens.

    parts: 2 if keys and values are taken by programs of their own, 1 if not.
    """

    key: PlaneCopy
    value: PlaneCopy
    tokens_last: bool
    rows: int
    num_warps: int
    parts: int = 2

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of both planes."""
        return *self.key.sizes, *self.value.sizes

    @property
    def constants(self) -> dict[str, Any]:
        """The constants and options of a kernel that copies them."""
        planes = {"KEY": self.key, "VALUE": self.value}
        each = {f"{p}_{n.upper()}": getattr(planes[p], n) for p in planes for n in PlaneCopy._fields[1:]}
        return {**each, "TOKENS_LAST": self.tokens_last, "ROWS": self.rows, "num_warps": self.num_warps}

    def grid(self, num_tiles: int) -> tuple[int, int, int]:
        """Return the programs for tiles, for keys and values, and for parts of a row."""
        passes = max(-(-plane.sizes[1] * plane.words // plane.columns) for plane in (self.key, self.value))
        return num_tiles, self.parts, max(1, min(passes, ENOUGH_PROGRAMS // (self.parts * num_tiles)))


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

    place: rows, which of them are read, which are written, and the block and token of each; sizes: those of
    `_sizes_of`. The programs of axis 2 share the columns.
    """
    o_row, m_read, m_written, block_id, token = place
    row_stride, row_grains, head, page_stride, base, head_stride = sizes[:6]
    token_gap, dim_gap, token_shift, dim_shift = sizes[6:]
    IS_FP8: tl.constexpr = pages.dtype.element_ty != rows.dtype.element_ty
    ROW_WORD: tl.constexpr = tl.int16 if IS_FP8 else WORD
    PAGE_WORDS: tl.constexpr = 1 if TOKENS_LAST else WORDS
    o_token = (block_id * page_stride + base + token + (token >> token_shift) * token_gap) * PAGE_WORDS
    page = pages.to(tl.pointer_type(WORD)) + o_token
    row = rows.to(tl.pointer_type(ROW_WORD)) + o_row * row_stride * WORDS
    # Without this, the type of a pointer is all that is known of its address.
    page = tl.multiple_of(page, PAGE_WORDS * (WORD.primitive_bitwidth // 8))
    row = tl.multiple_of(row, WORDS * (ROW_WORD.primitive_bitwidth // 8))
    # With tokens last, threads run along them where pages are accessed. A tile to be stored is flat: releases
    # of Triton choose different axes where they know no neighbours. In rows, elements are neighbours.
    ROW_AXIS: tl.constexpr = 1 if TOKENS_LAST else 0
    page, row = tl.expand_dims(page, 1 - ROW_AXIS), tl.expand_dims(row, 1 - ROW_AXIS)
    m_read, m_written = tl.expand_dims(m_read, 1 - ROW_AXIS), tl.expand_dims(m_written, 1 - ROW_AXIS)
    i_first, step = tl.program_id(2) * COLUMNS, tl.num_programs(2) * COLUMNS
    for i_word in range(i_first, row_grains * WORDS, step):
        o_word = i_word + tl.arange(0, COLUMNS)
        m_word = tl.expand_dims(o_word // WORDS < row_grains, ROW_AXIS)
        o_unit = o_word // PAGE_WORDS
        i_head, i_unit = (o_unit // head).to(tl.int64), (o_unit % head).to(tl.int64)
        o_page = i_head * head_stride + i_unit + (i_unit >> dim_shift) * dim_gap
        in_page = page + tl.expand_dims(o_page * PAGE_WORDS + o_word % PAGE_WORDS, ROW_AXIS)
        in_row = row + tl.expand_dims(o_word, ROW_AXIS)
        if TO_PAGES:
            # Read before the slot is known: a row without a slot is read too, and not written.
            word = tl.load(in_row, mask=m_read & m_word, other=0)
            if IS_FP8:
                word = bf16_to_e4m3(tl.where(m_written, word, 0), scale, HAS_FP8)
            m_word = m_written & m_word
            if TOKENS_LAST:
                in_page, word, m_word = tl.ravel(in_page), tl.ravel(word), tl.ravel(m_word)
            tl.store(in_page, word, mask=m_word)
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
    scales: tl.tuple,
    TO_PAGES: tl.constexpr,
    KEY_WORD: tl.constexpr,
    KEY_WORDS: tl.constexpr,
    KEY_COLUMNS: tl.constexpr,
    VALUE_WORD: tl.constexpr,
    VALUE_WORDS: tl.constexpr,
    VALUE_COLUMNS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    HAS_FP8: tl.constexpr,
) -> None:
    """Copy the keys of tokens to or from rows in programs 0 of axis 1, and the values in the last ones."""
    if tl.program_id(1) == 0:
        copy_plane(
            pages, keys, place, key, scales[0], TO_PAGES, KEY_WORD, KEY_WORDS, KEY_COLUMNS, False, HAS_FP8
        )
    if tl.program_id(1) == tl.num_programs(1) - 1:
        copy_plane(
            pages,
            values,
            place,
            value,
            scales[1],
            TO_PAGES,
            VALUE_WORD,
            VALUE_WORDS,
            VALUE_COLUMNS,
            TOKENS_LAST,
            HAS_FP8,
        )


def pages_copy_of(
    planes: tuple[Plane, Plane], num_heads: int, pages: torch.Tensor, rows: tuple[torch.Tensor, torch.Tensor]
) -> PagesCopy:
    """Return how keys and values are copied between pages and rows [count, …], any stride between rows."""
    item, is_copy = pages.element_size(), pages.dtype == rows[0].dtype
    tokens_last = planes[1].dims == 1 and planes[1].dim != 1
    columns_of_grain = COLUMNS_OF_GRAIN if is_copy else COLUMNS_OF_FP8_GRAIN
    widths = [math.prod(row.shape[1:]) for row in rows]
    heads = [_merged(plane, width, num_heads) for plane, width in zip(planes, widths, strict=True)]
    edges = [_edges_of(pages, rows[i], *heads[i], tokens_last and i == 1) for i in range(2)]
    common = [math.gcd(16 // item, *each) * item for each in edges]
    if common[0] % max(columns_of_grain):
        common = [math.gcd(*common)] * 2  # two grains only where that of keys is the widest: fewer compiles
    grains = [max(grain for grain in columns_of_grain if each % grain == 0) for each in common]
    is_short = all(width * item <= SHORT_GRAINS * n for width, n in zip(widths, grains, strict=True))
    copies = []
    for i, grain in enumerate(grains):
        by_tokens, n = tokens_last and i == 1, grain // item
        word, words = WORDS_OF_GRAIN[item if by_tokens else grain] if is_copy else (tl.uint8, n)
        words = n if by_tokens else words
        columns = SHORT_GRAINS * words if is_short else columns_of_grain[grain]
        sizes = _sizes_of(pages, rows[i], *heads[i], n, 1 if by_tokens else n)
        copies.append(PlaneCopy(sizes, word, words, COLUMNS_OF_TOKENS if by_tokens else columns))
    if tokens_last:
        return PagesCopy(copies[0], copies[1], True, ROWS_OF_TOKENS, NUM_WARPS_OF_TOKENS)
    if is_short and rows[0].shape[0] >= MANY_SHORT:
        return PagesCopy(copies[0], copies[1], False, SHORT_ROWS, NUM_WARPS_OF_MANY, parts=1)
    return PagesCopy(copies[0], copies[1], False, SHORT_ROWS if is_short else ROWS, NUM_WARPS)


def _merged(plane: Plane, width: int, num_heads: int) -> tuple[Plane, int]:
    """Return a plane and the elements of its heads; heads that stand together become one."""
    head = width // num_heads
    if plane.dims == plane.dim == 1 and head in (plane.head, width):
        return plane._replace(head=0), width
    return plane, head


def _edges_of(
    pages: torch.Tensor, rows: torch.Tensor, plane: Plane, head: int, by_tokens: bool
) -> Iterator[int]:
    """Yield the elements that a grain must divide to stand together, in rows alone if `by_tokens`."""
    yield from (rows.data_ptr() // rows.element_size(), _stride(rows), math.prod(rows.shape[1:]))
    if not by_tokens:
        yield from (pages.data_ptr() // pages.element_size(), _stride(pages), head, *plane[:3])
        yield from (plane.dim, plane.dims) if plane.dims > 1 else ()


def _sizes_of(
    pages: torch.Tensor, rows: torch.Tensor, plane: Plane, head: int, n: int, n_page: int
) -> tuple[int, ...]:
    """Return the sizes of `copy_plane`: of rows in units of n elements, of pages in units of n_page.

    They are a row's stride and width, a head, a page's stride, the plane's first unit and the stride of its
    heads, the gaps between groups of tokens and of units, and the binary logarithms of the sizes of groups.
    """
    tokens, dims = plane.tokens, plane.dims // n_page if plane.dims > 1 else 1
    dim = plane.dim // n_page if plane.dims > 1 else plane.dim
    row, row_stride = math.prod(rows.shape[1:]), _stride(rows)
    head, page_stride, base, head_stride, token = (
        edge // n_page for edge in (head, _stride(pages), *plane[:3])
    )
    of_page = (page_stride, base, head_stride, token - tokens, dim - dims)
    return row_stride // n, row // n, head, *of_page, tokens.bit_length() - 1, dims.bit_length() - 1


def _stride(rows: torch.Tensor) -> int:
    return rows.stride(0) if rows.shape[0] > 1 else 0
