"""New keys and values written into pages as bytes, each head with its own scale, as one Triton kernel."""

import math

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.e4m3 import e4m3_of, fp32_of_bf16, has_fp8
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.page_orders import Plane

# Numbers of a program. Heads and their scales lie on multiples of 4 bytes.
NUMBERS_PER_TILE = 4096
GRAIN = 4

LEAST_SCALE = tl.constexpr(1e-6)


@triton.jit
def _scale_heads(
    pages: tl.tensor,
    rows: tl.tensor,
    place: tl.tuple,
    sizes: tl.tuple,
    IS_INT8: tl.constexpr,
    WORDS: tl.constexpr,
    COLUMNS: tl.constexpr,
    HAS_FP8: tl.constexpr,
) -> None:
    """Write a head of rows to each place, as numbers and, behind them, their scale."""
    i_row, i_head, m_read, m_written, block_id, token = place
    row_stride, head, page_stride, base, head_stride, token_stride = sizes
    source = rows + (i_row * row_stride + i_head * head) * WORDS
    source = tl.multiple_of(source, 2 * WORDS)
    target = block_id * page_stride + base + token * token_stride + i_head * head_stride
    target = tl.multiple_of(pages + target * WORDS, WORDS)
    o_word = tl.arange(0, COLUMNS)
    m_word = (o_word // WORDS < head)[None, :]
    word = tl.load(source[:, None] + o_word[None, :], mask=m_read[:, None] & m_word, other=0)
    word = tl.where(m_written[:, None], word, 0)
    x = fp32_of_bf16(word)
    largest = 127.0 if IS_INT8 else 448.0
    amax = tl.max(tl.abs(x), axis=1)
    scale = tl.maximum(tl.div_rn(amax, tl.full(amax.shape, largest, tl.float32)), LEAST_SCALE)
    y = x * tl.div_rn(tl.full(scale.shape, 1.0, tl.float32), scale)[:, None]
    if IS_INT8:
        # The magnitude between product and sum keeps them from becoming one operation.
        magnitude = (y.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.float32, bitcast=True)
        whole = (magnitude + 0.5).to(tl.int32)
        byte = tl.where(word < 0, -whole, whole).to(tl.uint8)
    else:
        byte = e4m3_of(y, HAS_FP8)
    tl.store(target[:, None] + o_word[None, :], byte, mask=m_written[:, None] & m_word)
    scales = (target + head.to(tl.int64) * WORDS).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(scales, scale.to(tl.int32, bitcast=True), mask=m_written)


@triton.jit(do_not_specialize=range(19))
def _write_scaled_heads(
    new_keys: tl.tensor,
    new_values: tl.tensor,
    slot_mapping: tl.tensor,
    pages: tl.tensor,
    num_items: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    num_heads: tl.tensor,
    page_stride: tl.tensor,
    key_row: tl.tensor,
    key_dim: tl.tensor,
    key_base: tl.tensor,
    key_head: tl.tensor,
    key_token: tl.tensor,
    value_row: tl.tensor,
    value_dim: tl.tensor,
    value_base: tl.tensor,
    value_head: tl.tensor,
    value_token: tl.tensor,
    IS_INT8: tl.constexpr,
    WORDS: tl.constexpr,
    ITEMS: tl.constexpr,
    COLUMNS: tl.constexpr,
    HAS_FP8: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # Divisions take 32 bits where the numbers of heads and of slots do.
    o_item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    m_read = o_item < num_items
    item = tl.where(m_read, o_item, 0).to(num_items.dtype)
    i_row, i_head = (item // num_heads).to(tl.int64), (item % num_heads).to(tl.int64)
    slot = tl.load(slot_mapping + i_row, mask=m_read, other=-1)
    m_written = (slot >= 0) & (slot < num_slots)
    slot = tl.where(m_written, slot, 0).to(num_slots.dtype)
    block_id, token = (slot // block_size).to(tl.int64), (slot % block_size).to(tl.int64)
    place = (i_row, i_head, m_read, m_written, block_id, token)
    if tl.program_id(1) == 0:
        key = (key_row, key_dim, page_stride, key_base, key_head, key_token)
        _scale_heads(pages, new_keys, place, key, IS_INT8, WORDS, COLUMNS, HAS_FP8)
    else:
        value = (value_row, value_dim, page_stride, value_base, value_head, value_token)
        _scale_heads(pages, new_values, place, value, IS_INT8, WORDS, COLUMNS, HAS_FP8)


def write_scaled_heads(
    rows: tuple[torch.Tensor, torch.Tensor],
    slot_mapping: torch.Tensor,
    pages: torch.Tensor,
    block_size: int,
    planes: tuple[Plane, Plane],
    is_int8: bool,
) -> None:
    """Write bf16 rows [T, H, …], keys and values, into planes of pages, as `write_pages` says; no checks."""
    num_rows, num_heads, _ = rows[0].shape
    num_items = min(num_rows, slot_mapping.numel()) * num_heads
    page_stride = pages.stride(0) if pages.shape[0] > 1 else 0
    # Pages allow grains of GRAIN bytes; rows may not.
    strides = [row.stride(0) if num_rows > 1 else 0 for row in rows]
    addresses = [row.data_ptr() // row.element_size() for row in rows]
    n = GRAIN if math.gcd(GRAIN, *strides, *addresses) == GRAIN else 1
    dims = [row.shape[2] for row in rows]
    columns = triton.next_power_of_2(max(dims))
    items = max(NUMBERS_PER_TILE // columns, 1)
    sizes = [
        (stride // n, dim // n, *(edge // n for edge in plane[:3]))
        for stride, dim, plane in zip(strides, dims, planes, strict=True)
    ]
    _write_scaled_heads[(-(-num_items // items), 2)](
        *(row.view(torch.int16) for row in rows),
        slot_mapping,
        pages,
        num_items,
        pages.shape[0] * block_size,
        block_size,
        num_heads,
        page_stride // n,
        *sizes[0],
        *sizes[1],
        IS_INT8=is_int8,
        WORDS=n,
        ITEMS=items,
        COLUMNS=columns,
        HAS_FP8=not is_int8 and has_fp8(pages.device),
        **early(pages.device),
    )
