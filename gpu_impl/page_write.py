"""New keys and values scattered into the pages of a cache, copied or scaled, as one Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_tensor
from cumae.gpu_impl.e4m3 import has_fp8
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.page_orders import (
    COPIED,
    WORDS,
    check_dims,
    check_options,
    check_pages,
    check_rows_contiguous,
    planes_of,
    scale_bytes,
)
from cumae.gpu_impl.plane_copy import copy_planes, pages_copy_of
from cumae.gpu_impl.scaled_heads import write_scaled_heads


@triton.jit(do_not_specialize=range(29))
def _write_pages(
    new_keys: tl.tensor,
    new_values: tl.tensor,
    slot_mapping: tl.tensor,
    pages: tl.tensor,
    num_rows: tl.tensor,
    num_slots: tl.tensor,
    block_size: tl.tensor,
    key_scale: tl.tensor,
    value_scale: tl.tensor,
    key_row: tl.tensor,
    key_grains: tl.tensor,
    key_units: tl.tensor,
    key_page: tl.tensor,
    key_base: tl.tensor,
    key_head: tl.tensor,
    key_token: tl.tensor,
    key_dim: tl.tensor,
    key_token_shift: tl.tensor,
    key_dim_shift: tl.tensor,
    value_row: tl.tensor,
    value_grains: tl.tensor,
    value_units: tl.tensor,
    value_page: tl.tensor,
    value_base: tl.tensor,
    value_head: tl.tensor,
    value_token: tl.tensor,
    value_dim: tl.tensor,
    value_token_shift: tl.tensor,
    value_dim_shift: tl.tensor,
    KEY_WORD: tl.constexpr,
    KEY_WORDS: tl.constexpr,
    KEY_COLUMNS: tl.constexpr,
    VALUE_WORD: tl.constexpr,
    VALUE_WORDS: tl.constexpr,
    VALUE_COLUMNS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    HAS_FP8: tl.constexpr,
    ROWS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_row = o_row < num_rows
    slot = tl.load(slot_mapping + o_row, mask=m_row, other=-1)
    m_slot = (slot >= 0) & (slot < num_slots)
    # The division takes 32 bits where the number of slots does.
    slot = tl.where(m_slot, slot, 0).to(num_slots.dtype)
    block_id, token = (slot // block_size).to(tl.int64), (slot % block_size).to(tl.int64)
    copy_planes(
        pages,
        new_keys,
        new_values,
        (o_row, m_row, m_slot, block_id, token),
        (
            key_row,
            key_grains,
            key_units,
            key_page,
            key_base,
            key_head,
            key_token,
            key_dim,
            key_token_shift,
            key_dim_shift,
        ),
        (
            value_row,
            value_grains,
            value_units,
            value_page,
            value_base,
            value_head,
            value_token,
            value_dim,
            value_token_shift,
            value_dim_shift,
        ),
        (key_scale, value_scale),
        True,
        KEY_WORD,
        KEY_WORDS,
        KEY_COLUMNS,
        VALUE_WORD,
        VALUE_WORDS,
        VALUE_COLUMNS,
        TOKENS_LAST,
        HAS_FP8,
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
    num_rows, num_slots = min(new_keys.shape[0], slot_mapping.numel()), pages.shape[0] * block_size
    if num_rows == 0 or num_slots == 0 or num_heads == 0:
        return
    planes = planes_of(page_order, head_format, block_size, num_heads, head_dim, new_values.shape[2])
    rows = new_keys, new_values
    with torch.cuda.device(new_keys.get_device()):
        if scale_bytes(head_format):
            write_scaled_heads(rows, slot_mapping, pages, block_size, planes, head_format == "int8_own")
            return
        copies = pages_copy_of(planes, num_heads, pages, rows)
        _write_pages[copies.grid(-(-num_rows // copies.rows))](
            *(row.view(WORDS[row.element_size()]) for row in rows),
            slot_mapping,
            pages.view(WORDS[pages.element_size()]),
            num_rows,
            num_slots,
            block_size,
            key_scale,
            value_scale,
            *copies.sizes,
            HAS_FP8=head_format == "fp8" and has_fp8(pages.device),
            **copies.constants,
            **early(new_keys.device),
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
