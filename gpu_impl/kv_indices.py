"""The pages of each request's keys as a compressed sparse row list, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.owners import (
    NUM_WARPS,
    find_owners,
    own_entries,
    own_tiles,
    shape_of_list,
)
from cumae.gpu_impl.table_rows import check_table, find_rows
from cumae.gpu_impl.tile_ends import end_of_tile, find_tile, first_of_tile, launch_carries, start_of_tile


@triton.jit
def _count_pages(
    seq_lens: tl.tensor,
    o_request: tl.tensor,
    num_requests: tl.tensor,
    block_size: tl.tensor,
    window: tl.tensor,
    HAS_WINDOW: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return seq_len, last page and number of pages of each request; (0, 0, 0) past the last one."""
    seq_len = tl.load(seq_lens + o_request, mask=o_request < num_requests, other=0).to(tl.int32)
    last_page = (seq_len - 1) // block_size
    first_page = tl.zeros_like(seq_len)
    if HAS_WINDOW:
        first_page = tl.maximum(seq_len - window, 0) // block_size
    return seq_len, last_page, tl.where(seq_len > 0, last_page - first_page + 1, 0)


@triton.jit
def _write_last_lens(
    kv_last_page_len: tl.tensor,
    o_request: tl.tensor,
    seq_len: tl.tensor,
    last_page: tl.tensor,
    num_requests_padded: tl.tensor,
    block_size: tl.tensor,
) -> None:
    last_len = tl.where(seq_len > 0, seq_len - last_page * block_size, 0)
    tl.store(kv_last_page_len + o_request, last_len, mask=o_request < num_requests_padded)


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded", "window"])
def _sum_tiles(
    seq_lens: tl.tensor,
    kv_indptr: tl.tensor,
    kv_last_page_len: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    block_size: tl.tensor,
    window: tl.tensor,
    HAS_WINDOW: tl.constexpr,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    seq_len, last_page, num_pages = _count_pages(
        seq_lens, o_request, num_requests, block_size, window, HAS_WINDOW
    )
    _write_last_lens(kv_last_page_len, o_request, seq_len, last_page, num_requests_padded, block_size)
    tl.store(kv_indptr + 1 + end_of_tile(i_tile, num_requests_padded, REQUESTS), tl.sum(num_pages))


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_requests_padded",
        "num_rows",
        "table_width",
        "table_row_stride",
        "num_entries",
        "window",
    ]
)
def _write_kv_indices(
    block_table: tl.tensor,
    row_index: tl.tensor,
    seq_lens: tl.tensor,
    kv_indptr: tl.tensor,
    kv_indices: tl.tensor,
    kv_last_page_len: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_entries: tl.tensor,
    block_size: tl.tensor,
    window: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_ENDS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    sums = kv_indptr + 1
    num_pages_to_write = num_entries
    if i_program == 0:
        tl.store(kv_indptr, 0)
    if HAS_ENDS:
        # The last programs write the sums of a tile of requests each. The one at its end is there.
        num_programs -= (num_requests_padded + REQUESTS - 1) // REQUESTS
        i_request_tile = i_program - num_programs
        if i_request_tile >= 0:
            o_request = first_of_tile(i_request_tile, REQUESTS) + tl.arange(0, REQUESTS)
            _, _, num_pages = _count_pages(seq_lens, o_request, num_requests, block_size, window, HAS_WINDOW)
            m_inner = o_request < end_of_tile(i_request_tile, num_requests_padded, REQUESTS)
            stop = start_of_tile(sums, i_request_tile, REQUESTS) + tl.cumsum(num_pages)
            tl.store(sums + o_request, stop, mask=m_inner)
            return
        num_pages_to_write = tl.minimum(tl.load(kv_indptr + num_requests_padded), num_entries)
    i_entry, i_end = own_entries(num_pages_to_write, num_programs, ENTRIES, HAS_ENDS)
    while i_entry < i_end:
        i_request = tl.full((), 0, tl.int32)
        i_start = tl.full((), 0, tl.int32)
        if HAS_ENDS:
            i_request_tile = find_tile(sums, num_requests_padded, i_entry, REQUESTS)
            i_request = first_of_tile(i_request_tile, REQUESTS)
            i_start = start_of_tile(sums, i_request_tile, REQUESTS)
        o_request = i_request + tl.arange(0, REQUESTS)
        seq_len, last_page, num_pages = _count_pages(
            seq_lens, o_request, num_requests, block_size, window, HAS_WINDOW
        )
        stop = i_start + tl.cumsum(num_pages)
        i_stop = tl.max(stop)
        if not HAS_ENDS:
            if i_program == 0:
                tl.store(sums + o_request, stop, mask=o_request < num_requests_padded)
                _write_last_lens(
                    kv_last_page_len, o_request, seq_len, last_page, num_requests_padded, block_size
                )
        first_tile, stop_tile, step = own_tiles(i_entry, i_stop, i_end, num_programs, ENTRIES, HAS_ENDS)
        for i_tile in range(first_tile, stop_tile, step):
            o_entry = i_tile * ENTRIES + tl.arange(0, ENTRIES)
            m_entry = (o_entry >= i_start) & (o_entry < tl.minimum(i_stop, num_entries))
            owner = find_owners(stop - num_pages, i_tile * ENTRIES, ENTRIES)
            # Entry stop - 1 is the request's last page.
            i_column = o_entry + tl.gather(last_page + 1 - stop, owner, 0)
            i_row, m_row = find_rows(row_index, i_request + owner, m_entry, num_rows, HAS_ROW_INDEX)
            o_block = i_row * table_row_stride + i_column * table_column_stride
            block_id = tl.load(block_table + o_block, mask=m_row & (i_column < table_width), other=-1)
            tl.store(kv_indices + o_entry, tl.maximum(block_id, -1).to(tl.int32), mask=m_entry)
        i_entry = tl.maximum(i_stop, 1)


def write_kv_indices(
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    seq_lens: torch.Tensor,
    num_requests: int,
    block_size: int,
    window: int,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_len: torch.Tensor,
) -> None:
    """Write the pages that hold each request's keys, as a compressed sparse row (CSR) list.

    block_table [num_rows, width] of any strides (a negative entry means no block), of pages of block_size
    tokens; row_index [R], the table row of each request (-1 means none), or None (request b has row b);
    seq_lens [R], in tokens, below 2**31; each int32 or int64. The first num_requests of the R requests are
    live; nothing is read of the others.
    A request has the pages, in order of position, that hold any of its keys
    [max(seq_len - window, 0), seq_len); window 0 means all its keys.
    All outputs are int32 and contiguous. kv_indptr [R+1]: running sum of the pages, which padded requests do
    not raise. kv_indices [N]: the pages, request by request; -1 for a negative entry, for a column past the
    table's width (which is not read) and for a row outside the table. Entries from kv_indptr[R] on are
    untouched. N must not be smaller than kv_indptr[R]; pages past it are dropped. kv_last_page_len [R]: keys
    in the last page, (seq_len - 1) % block_size + 1; 0 for a request without keys and for padding.
    One launch, or three for more than 4,096 requests. Does not synchronise or allocate, so a CUDA graph can
    capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: FlashInfer paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len; vLLM
    _copy_page_indices_kernel; SGLang create_flashinfer_kv_indices_triton.

    >>> block_table, seq_lens = torch.tensor([[7, 3, 5], [4, 4, 4], [9, -2, 6]]), torch.tensor([9, 0, 8, 99])
    >>> kv_indptr, kv_indices, last_page_len = (torch.full((n,), 77, dtype=torch.int32) for n in (5, 6, 4))
    >>> write_kv_indices(block_table, None, seq_lens, 3, 4, 5, kv_indptr, kv_indices, last_page_len)
    >>> kv_indptr.tolist(), kv_indices.tolist(), last_page_len.tolist()
    ([0, 2, 2, 4, 4], [3, 5, 9, -1, 77, 77], [1, 0, 4, 0])
    """
    check_indices("seq_lens", seq_lens, None)
    device, num_requests_padded = seq_lens.device, seq_lens.numel()
    check_table(block_table, row_index, num_requests_padded, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_int("block_size", block_size, 1)
    check_int("window", window, 0)
    check_tensor("kv_indptr", kv_indptr, (torch.int32,), (num_requests_padded + 1,), device)
    check_tensor("kv_indices", kv_indices, (torch.int32,), (None,), device)
    check_tensor("kv_last_page_len", kv_last_page_len, (torch.int32,), (num_requests_padded,), device)
    num_entries = kv_indices.numel()
    shape = shape_of_list(num_entries, num_requests_padded)
    with torch.cuda.device(seq_lens.get_device()):
        if shape.has_ends:
            _sum_tiles[(shape.num_tiles,)](
                seq_lens,
                kv_indptr,
                kv_last_page_len,
                num_requests,
                num_requests_padded,
                block_size,
                window,
                HAS_WINDOW=window > 0,
                REQUESTS=shape.requests,
                num_warps=NUM_WARPS,
                **early(seq_lens.device),
            )
            launch_carries(kv_indptr[1:], None, num_requests_padded, shape.requests)
        _write_kv_indices[(shape.num_programs + shape.has_ends * shape.num_tiles,)](
            block_table,
            block_table if row_index is None else row_index,
            seq_lens,
            kv_indptr,
            kv_indices,
            kv_last_page_len,
            num_requests,
            num_requests_padded,
            *block_table.shape,
            *block_table.stride(),
            num_entries,
            block_size,
            window,
            HAS_ROW_INDEX=row_index is not None,
            HAS_WINDOW=window > 0,
            HAS_ENDS=shape.has_ends,
            REQUESTS=shape.requests,
            ENTRIES=shape.entries,
            num_warps=NUM_WARPS,
            **early(seq_lens.device),
        )
