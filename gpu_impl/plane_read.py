"""The keys, or the values, of tokens in pages, copied into rows: in the widest words that both sides allow.

A grain is a unit of 1 to 16 bytes that stands together on both sides; sizes and strides are counted in it.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.copy_grain import WORDS_OF_GRAIN
from cumae.gpu_impl.e4m3 import e4m3_numbers
from cumae.gpu_impl.page_orders import Plane

# Each row is copied in passes of PASS_BYTES, or of MAX_GRAINS.
PASS_BYTES, MAX_GRAINS = 256, 64


class PlaneCopy(NamedTuple):
    """How a plane is copied. sizes: a row, a head, the page's stride and the plane's strides, in grains.

    tokens_last: neighbours in memory are tokens, not elements of a head.
    """

    sizes: tuple[int, ...]
    tokens: int
    dims: int
    word: tl.dtype
    words_per_grain: int
    columns: int
    tokens_last: bool


@triton.jit
def read_plane(
    pages: tl.tensor,
    rows: tl.tensor,
    place: tl.tuple,
    sizes: tl.tuple,
    scale: tl.tensor,
    TOKENS: tl.constexpr,
    DIMS: tl.constexpr,
    WORD: tl.constexpr,
    WORDS_PER_GRAIN: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
) -> None:
    """Read all heads of a token of a block into each row. Bytes for rows of 16 bits are fp8 numbers.

    place: the rows, which of them are read, their blocks and tokens; sizes: those of a PlaneCopy.
    """
    o_row, m_row, block_id, token = place
    row_grains, head_grains, page_stride, base, head_stride, token_stride, dim_stride = sizes
    IS_FP8: tl.constexpr = pages.dtype.element_ty != rows.dtype.element_ty
    source = (block_id * page_stride + base + token // TOKENS * token_stride) * WORDS_PER_GRAIN
    source = pages.to(tl.pointer_type(WORD)) + source + token % TOKENS
    target = rows.to(tl.pointer_type(tl.int16 if IS_FP8 else WORD)) + o_row * row_grains * WORDS_PER_GRAIN
    # Threads run along the last axis first. Stores find their own order: elements of rows are neighbours.
    ROW_AXIS: tl.constexpr = 1 if TOKENS_LAST else 0
    source, target = tl.expand_dims(source, 1 - ROW_AXIS), tl.expand_dims(target, 1 - ROW_AXIS)
    m_row = tl.expand_dims(m_row, 1 - ROW_AXIS)
    for i_word in range(0, row_grains * WORDS_PER_GRAIN, COLUMNS):
        o_word = i_word + tl.arange(0, COLUMNS)
        o_grain = o_word // WORDS_PER_GRAIN
        i_head, i_grain = (o_grain // head_grains).to(tl.int64), (o_grain % head_grains).to(tl.int64)
        o_source = i_head * head_stride + i_grain // DIMS * dim_stride + i_grain % DIMS
        o_source = o_source * WORDS_PER_GRAIN + o_word % WORDS_PER_GRAIN
        m_word = m_row & tl.expand_dims(o_grain < row_grains, ROW_AXIS)
        word = tl.load(source + tl.expand_dims(o_source, ROW_AXIS), mask=m_word, other=0)
        if IS_FP8:
            # A bf16 number is the upper half of an fp32 number: drop 16 bits, to nearest even.
            bits = (e4m3_numbers(word) * scale).to(tl.int32, bitcast=True)
            word = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)
        tl.store(target + tl.expand_dims(o_word, ROW_AXIS), word, mask=m_word)


def plane_copy_of(
    plane: Plane, num_heads: int, head: int, pages: torch.Tensor, rows: torch.Tensor
) -> PlaneCopy:
    """Return how a plane with heads of `head` elements is copied from pages to rows."""
    item, is_copy = pages.element_size(), pages.dtype == rows.dtype
    row, page_stride = num_heads * head, pages.stride(0) if pages.shape[0] > 1 else 0
    tokens_last = plane.dims == 1 and plane.dim != 1
    if plane.dims == plane.dim == 1 and plane.head == head:
        head, plane = row, plane._replace(head=0)  # heads that stand together are one
    grain = item
    if not tokens_last:
        edges = [head, page_stride, *plane[:3], *((plane.dim, plane.dims) if plane.dims > 1 else ())]
        addresses = (pages.data_ptr(), rows.data_ptr() if is_copy else 0)
        grain = math.gcd(16, *addresses, *(edge * item for edge in edges))
    word, words_per_grain = WORDS_OF_GRAIN[grain] if is_copy else (tl.uint8, grain)
    n = grain // item
    dim, dims = (plane.dim // n, plane.dims // n) if plane.dims > 1 else (plane.dim, 1)
    sizes = (row // n, head // n, page_stride // n, *(edge // n for edge in plane[:3]), dim)
    grains = min(PASS_BYTES // (rows.element_size() * n), MAX_GRAINS)
    columns = min(grains, triton.next_power_of_2(max(sizes[0], 1))) * words_per_grain
    return PlaneCopy(sizes, plane.tokens, dims, word, words_per_grain, columns, tokens_last)
