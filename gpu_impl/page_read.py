"""Cached keys and values of each request gathered out of pages into rows, as one Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int
from cumae.gpu_impl.e4m3 import has_fp8
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.owners import find_owners, next_own_tile, requests_per_tile
from cumae.gpu_impl.page_orders import (
    WORDS,
    check_dims,
    check_options,
    check_pages,
    check_rows,
    planes_of,
)
from cumae.gpu_impl.plane_copy import copy_planes, pages_copy_of
from cumae.gpu_impl.table_rows import check_table, find_rows

MAX_PROGRAMS = 1024  # that share the tiles of rows


@triton.jit(do_not_specialize=range(37))
def _read_pages(
    pages: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    seq_lens: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_blocks: tl.tensor,
    capacity: tl.tensor,
    block_size: tl.tensor,
    window: tl.tensor,
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
    HAS_ROW_INDEX: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    KEY_WORD: tl.constexpr,
    KEY_WORDS: tl.constexpr,
    KEY_COLUMNS: tl.constexpr,
    VALUE_WORD: tl.constexpr,
    VALUE_WORDS: tl.constexpr,
    VALUE_COLUMNS: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    HAS_FP8: tl.constexpr,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    num_programs = tl.num_programs(0)
    i_stop = tl.full((), 0, tl.int64)
    for i_request in range(0, num_requests, REQUESTS):
        o_request = i_request + tl.arange(0, REQUESTS)
        seq_len = tl.load(seq_lens + o_request, mask=o_request < num_requests, other=0).to(tl.int32)
        first_position = tl.zeros_like(seq_len)
        if HAS_WINDOW:
            first_position = tl.maximum(seq_len - window, 0)
        i_start = i_stop
        stop = i_start + tl.cumsum((seq_len - first_position).to(tl.int64))
        i_stop = tl.max(stop)
        i_end = tl.minimum(i_stop, capacity)
        first_tile = next_own_tile(i_start, num_programs, ROWS)
        for i_tile in range(first_tile, (i_end + ROWS - 1) // ROWS, num_programs):
            o_row = i_tile * ROWS + tl.arange(0, ROWS)
            m_row = (o_row >= i_start) & (o_row < i_end)
            owner = find_owners(stop - (seq_len - first_position), i_tile * ROWS, ROWS)
            # Row stop - 1 is the request's last position.
            position = (o_row + tl.gather(seq_len - stop, owner, 0)).to(tl.int32)
            i_column = position // block_size
            token = (position % block_size).to(tl.int64)
            i_row, m_row = find_rows(row_index, i_request + owner, m_row, num_rows, HAS_ROW_INDEX)
            o_block = i_row * table_row_stride + i_column.to(tl.int64) * table_column_stride
            m_row = m_row & (i_column < table_width)
            block_id = tl.load(block_table + o_block, mask=m_row, other=-1).to(tl.int64)
            m_row = (block_id >= 0) & (block_id < num_blocks)
            copy_planes(
                pages,
                keys,
                values,
                (o_row, m_row, m_row, block_id, token),
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
                False,
                KEY_WORD,
                KEY_WORDS,
                KEY_COLUMNS,
                VALUE_WORD,
                VALUE_WORDS,
                VALUE_COLUMNS,
                TOKENS_LAST,
                HAS_FP8,
            )


def read_pages(
    pages: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    seq_lens: torch.Tensor,
    num_requests: int,
    block_size: int,
    num_heads: int,
    window: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> None:
    """Write the cached keys and values of each request, gathered out of its pages, as rows without gaps.

    pages [num_blocks, …], any stride between blocks, the rest contiguous, in the page_order and head_format
    of write_pages; block_table [num_rows, width] of any strides (a negative entry means no block);
    row_index [R], the table row of each request (-1 means none), or None (request b has row b); seq_lens [R],
    in tokens, below 2**31; each int32 or int64. The first num_requests of the R requests are live; nothing is
    read of the others.
    keys [capacity, …] and values [capacity, …], contiguous: further dimensions divide num_heads heads, whose
    numbers may differ between keys and values. They get the positions [max(seq_len - window, 0), seq_len) of
    each request, in order, request after request; window 0 means all positions. A row whose block is missing
    (a table row or column outside the table, an entry that is negative or past the pages) is untouched; so
    are rows past the last position. Rows past capacity are dropped.
    head_format: bf16, fp16, fp32 and bytes (uint8) are copied bit for bit; so are fp8_own and int8_own, as
    bytes, of which each head's last four are its scale. Of fp8, e4m3fn numbers in uint8 pages, bf16 is
    written: the fp32 product with key_scale or value_scale, to nearest even. No number may be NaN; nothing
    checks that.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or option, before anything is written.
    Rule: vLLM cp_mha_gather_cache; SGLang _get_k_and_s_triton, launch_gather_shuffle_5d_to_linear; LMDeploy
    flatten_kv_cache.

    >>> pages = torch.tensor([[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]])
    >>> block_table, seq_lens = torch.tensor([[1, 0], [9, 0], [0, 1]]), torch.tensor([3, 0, 2, 99])
    >>> keys, values = torch.zeros(6, 1), torch.zeros(6, 1)
    >>> read_pages(pages, block_table, None, seq_lens, 3, 2, 1, 2, "NHD", "fp32", 1.0, 1.0, keys, values)
    >>> keys.flatten().tolist(), values.flatten().tolist()
    ([4.0, 1.0, 1.0, 2.0, 0.0, 0.0], [8.0, 5.0, 5.0, 6.0, 0.0, 0.0])
    """
    check_indices("seq_lens", seq_lens, None)
    device, num_requests_padded = seq_lens.device, seq_lens.numel()
    check_table(block_table, row_index, num_requests_padded, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_int("num_heads", num_heads, 1)
    check_int("window", window, 0)
    check_options(block_size, page_order, head_format)
    key_dim = check_rows("keys", keys, None, num_heads, head_format, device)
    capacity = keys.shape[0]
    value_dim = check_rows("values", values, capacity, num_heads, head_format, device)
    check_dims(block_size, page_order, head_format, key_dim, value_dim)
    for name, scale in (("key_scale", key_scale), ("value_scale", value_scale)):
        if not isinstance(scale, float) or not abs(scale) <= torch.finfo(torch.float32).max:
            raise ValueError(f"{name} = {scale!r}, must be a finite float")
    check_pages(pages, block_size, num_heads, head_format, key_dim, value_dim, device)
    num_blocks = pages.shape[0]
    if 0 in (num_requests, capacity, num_blocks):
        return
    planes = planes_of(page_order, head_format, block_size, num_heads, key_dim, value_dim)
    copies = pages_copy_of(planes, num_heads, pages, (keys, values))
    with torch.cuda.device(seq_lens.get_device()):
        _read_pages[copies.grid(min(-(-capacity // copies.rows), MAX_PROGRAMS))](
            pages.view(WORDS[pages.element_size()]),
            block_table,
            block_table if row_index is None else row_index,
            seq_lens,
            keys.view(WORDS[keys.element_size()]),
            values.view(WORDS[values.element_size()]),
            num_requests,
            *block_table.shape,
            *block_table.stride(),
            num_blocks,
            capacity,
            block_size,
            window,
            key_scale,
            value_scale,
            *copies.sizes,
            HAS_ROW_INDEX=row_index is not None,
            HAS_WINDOW=window > 0,
            HAS_FP8=head_format == "fp8" and has_fp8(pages.device),
            REQUESTS=requests_per_tile(num_requests_padded),
            **copies.constants,
            **early(seq_lens.device),
        )
