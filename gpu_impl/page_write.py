"""New keys and values scattered into the pages of a cache, copied or scaled, as one Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_tensor
from cumae.gpu_impl.e4m3 import e4m3_bytes
from cumae.gpu_impl.page_orders import (
    COPIED,
    SCALED,
    WORDS,
    check_dims,
    check_options,
    check_pages,
    check_rows_contiguous,
    planes_of,
    scale_bytes,
)

WORDS_PER_TILE = 4096
MAX_COLUMNS = 512

COPY, FP8, FP8_OWN, INT8_OWN = (tl.constexpr(i) for i in range(4))
LEAST_SCALE = tl.constexpr(1e-6)


@triton.jit
def _write_plane(
    new: tl.tensor,
    pages: tl.tensor,
    i_row: tl.tensor,
    i_head: tl.tensor,
    slot: tl.tensor,
    block_size: tl.tensor,
    page_stride: tl.tensor,
    row_stride: tl.tensor,
    size: tl.tensor,
    scale: tl.tensor,
    base: tl.tensor,
    head_stride: tl.tensor,
    token_stride: tl.tensor,
    dim_stride: tl.tensor,
    TOKENS: tl.constexpr,
    DIMS: tl.constexpr,
    FORMAT: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write `size` elements of heads i_head of new rows i_row to their slots; a slot of -1 is none."""
    m_item = slot >= 0
    slot = tl.where(m_item, slot, 0)
    token = slot % block_size
    source = new + i_row * row_stride + i_head * size
    target = pages + slot // block_size * page_stride + base + i_head * head_stride
    target += token // TOKENS * token_stride + token % TOKENS
    # A head with a scale of its own is one tile: its largest element is that of all columns.
    for i_column in range(0, size, COLUMNS):
        o_column = i_column + tl.arange(0, COLUMNS)
        m_word = m_item[:, None] & (o_column < size)[None, :]
        word = tl.load(source[:, None] + o_column[None, :], mask=m_word, other=0)
        o_place = o_column.to(tl.int64) // DIMS * dim_stride + o_column % DIMS
        place = target[:, None] + o_place[None, :]
        if FORMAT == COPY:
            tl.store(place, word, mask=m_word)
        else:
            # A bf16 number is the upper half of an fp32 number; magnitudes have the order of their bits.
            bits = word.to(tl.int32) << 16
            x = bits.to(tl.float32, bitcast=True)
            if FORMAT == FP8:
                y = tl.div_rn(x, tl.zeros_like(x) + scale)
            else:
                amax = tl.max(bits & 0x7FFFFFFF, axis=1).to(tl.float32, bitcast=True)
                largest = 127.0 if FORMAT == INT8_OWN else 448.0
                own = tl.maximum(tl.div_rn(amax, tl.full(amax.shape, largest, tl.float32)), LEAST_SCALE)
                y = x * tl.div_rn(tl.full(own.shape, 1.0, tl.float32), own)[:, None]
                scales = (target + size).to(tl.pointer_type(tl.int32), bitcast=True)
                tl.store(scales, own.to(tl.int32, bitcast=True), mask=m_item)
            y_bits = y.to(tl.int32, bitcast=True)
            if FORMAT == INT8_OWN:
                # The magnitude between product and sum keeps them from becoming one operation.
                whole = ((y_bits & 0x7FFFFFFF).to(tl.float32, bitcast=True) + 0.5).to(tl.int32)
                tl.store(place, tl.where(bits < 0, -whole, whole).to(tl.uint8), mask=m_word)
            else:
                tl.store(place, e4m3_bytes(y_bits), mask=m_word)


@triton.jit(
    do_not_specialize=["num_rows", "num_slots", "block_size", "num_heads", "key_scale", "value_scale"]
)
def _write_pages(
    new_keys: tl.tensor,
    new_values: tl.tensor,
    slot_mapping: tl.tensor,
    pages: tl.tensor,
    num_rows: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    num_heads: tl.tensor,
    page_stride: tl.tensor,
    key_row_stride: tl.tensor,
    value_row_stride: tl.tensor,
    head_dim: tl.tensor,
    value_dim: tl.tensor,
    key_scale: tl.tensor,
    value_scale: tl.tensor,
    key_head: tl.tensor,
    key_token: tl.tensor,
    key_dim: tl.tensor,
    value_base: tl.tensor,
    value_head: tl.tensor,
    value_token: tl.tensor,
    value_dims: tl.tensor,
    KEY_DIMS: tl.constexpr,
    VALUE_TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    ITEMS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    o_item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    i_row, i_head = o_item // num_heads, o_item % num_heads
    slot = tl.load(slot_mapping + i_row, mask=i_row < num_rows, other=-1)
    slot = tl.where(slot < num_slots, slot, -1)
    if tl.program_id(1) == 0:
        _write_plane(
            new_keys,
            pages,
            i_row,
            i_head,
            slot,
            block_size,
            page_stride,
            key_row_stride,
            head_dim,
            key_scale,
            0,
            key_head,
            key_token,
            key_dim,
            1,
            KEY_DIMS,
            FORMAT,
            COLUMNS,
        )
    else:
        _write_plane(
            new_values,
            pages,
            i_row,
            i_head,
            slot,
            block_size,
            page_stride,
            value_row_stride,
            value_dim,
            value_scale,
            value_base,
            value_head,
            value_token,
            value_dims,
            VALUE_TOKENS,
            1,
            FORMAT,
            COLUMNS,
        )


def write_pages(
    new_keys: torch.Tensor,
    new_values: torch.Tensor,
    slot_mapping: torch.Tensor,
    pages: torch.Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    """Write new_keys[i] and new_values[i] to slot slot_mapping[i], for i < min(T, N); change no other bit.

    new_keys [T, H, D], new_values [T, H, V], any stride between rows, the rest contiguous; slot_mapping [N]
    int64, contiguous, slots distinct where not negative; pages [num_blocks, …], any stride between blocks,
    the rest contiguous: the memory of a block, which any further dimensions divide. Slot s is token
    s % block_size of block s // block_size. A slot that is negative (-1 means none) or past the pages writes
    nothing.
    page_order, from the outermost dimension of a block: NHD [token, H, D] then [token, H, V]; HND
    [H, token, D] then [H, token, V]; joined [token, H, D + V]; packed [H, D / x, token, x] then
    [H, V, token]; shuffled [H, D / x, token, x] then [H, token / x, V, x]; x numbers have 16 bytes.
    head_format: bf16, fp16, fp32 and bytes (uint8) are copied. The others hold bf16 numbers x as bytes of
    uint8 pages, in fp32. fp8: e4m3fn of x / key_scale or x / value_scale, to nearest even, at most 448.
    fp8_own and int8_own: s = max(amax / 448 or 127, 1e-6) of the head, y = x * (1 / s), e4m3fn of y or, for
    int8, the whole part of |y| + 0.5 with the sign of y; s follows the head's numbers, in 4 more bytes. Every
    number must be finite; nothing checks that.
    Raises ValueError for a wrong dtype, device, shape, stride or option, before anything is written. Does not
    synchronise or allocate, so a CUDA graph can capture it.
    Rule: vLLM triton_reshape_and_cache_flash, its diffkv and per_token_head_quant forms; SGLang
    launch_reshape_and_cache_shuffle_5d, _set_k_and_s_triton.

    >>> pages = torch.zeros(1, 8)
    >>> keys, values = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.tensor([[[5.0, 6.0]], [[7.0, 8.0]]])
    >>> write_pages(keys, values, torch.tensor([1, -1]), pages, 2, "joined", "fp32", 1.0, 1.0)
    >>> pages.tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 5.0, 6.0]]
    """
    _check_inputs(new_keys, new_values, slot_mapping, pages, block_size, page_order, head_format)
    _, num_heads, head_dim = new_keys.shape
    value_dim = new_values.shape[2]
    num_rows, num_slots = min(new_keys.shape[0], slot_mapping.numel()), pages.shape[0] * block_size
    if num_rows == 0 or num_slots == 0 or num_heads == 0:
        return
    keys, values = planes_of(page_order, head_format, block_size, num_heads, head_dim, value_dim)
    word = torch.int16 if head_format in SCALED else WORDS[pages.element_size()]
    columns = triton.next_power_of_2(max(head_dim, value_dim, 1))
    if not head_format.endswith("_own"):
        columns = min(columns, MAX_COLUMNS)
    items = max(WORDS_PER_TILE // columns, 1)
    with torch.cuda.device(new_keys.get_device()):
        _write_pages[(-(-num_rows * num_heads // items), 2)](
            new_keys.view(word),
            new_values.view(word),
            slot_mapping,
            pages.view(WORDS[pages.element_size()]),
            num_rows,
            num_slots,
            block_size,
            num_heads,
            pages.stride(0),
            new_keys.stride(0),
            new_values.stride(0),
            head_dim,
            value_dim,
            key_scale,
            value_scale,
            *keys[1:4],
            *values[:4],
            KEY_DIMS=keys.dims,
            VALUE_TOKENS=values.tokens,
            FORMAT=1 + SCALED.index(head_format) if head_format in SCALED else 0,
            ITEMS=items,
            COLUMNS=columns,
        )


def _check_inputs(
    new_keys: torch.Tensor,
    new_values: torch.Tensor,
    slot_mapping: torch.Tensor,
    pages: torch.Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
) -> None:
    check_options(block_size, page_order, head_format)
    taken = COPIED.get(head_format, torch.bfloat16)
    check_tensor("new_keys", new_keys, (taken,), (None, None, None), contiguous=False)
    num_rows, num_heads, head_dim = new_keys.shape
    device = new_keys.device
    check_tensor("new_values", new_values, (taken,), (num_rows, num_heads, None), device, contiguous=False)
    check_tensor("slot_mapping", slot_mapping, (torch.int64,), (None,), device)
    value_dim = new_values.shape[2]
    check_dims(block_size, page_order, head_format, head_dim, value_dim)
    check_rows_contiguous("new_keys", new_keys)
    check_rows_contiguous("new_values", new_values)
    page = check_pages(pages, block_size, num_heads, head_format, head_dim, value_dim, device)
    if pages.shape[0] > 1 and pages.stride(0) < page:
        raise ValueError(f"pages.stride() = {pages.stride()}, must not let pages overlap")
    if scale_bytes(head_format) and ((pages.shape[0] > 1 and pages.stride(0) % 4) or pages.data_ptr() % 4):
        raise ValueError(f"pages.stride() = {pages.stride()}, must keep scales on multiples of 4 bytes")
