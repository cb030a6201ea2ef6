"""The pages of each request's keys as a compressed sparse row list, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.owners import (
    ENTRIES_PER_TILE,
    NUM_WARPS,
    find_owners,
    next_own_tile,
    programs_of,
    requests_per_tile,
)
from cumae.gpu_impl.table_rows import check_table, find_rows


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
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
) -> None:
    i_program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    if i_program == 0:
        tl.store(kv_indptr, 0)
    i_stop = tl.full((), 0, tl.int32)
    for i_request in range(0, num_requests_padded, REQUESTS):
        o_request = i_request + tl.arange(0, REQUESTS)
        seq_len = tl.load(seq_lens + o_request, mask=o_request < num_requests, other=0).to(tl.int32)
        last_page = (seq_len - 1) // block_size
        first_page = tl.zeros_like(seq_len)
        if HAS_WINDOW:
            first_page = tl.maximum(seq_len - window, 0) // block_size
        num_pages = tl.where(seq_len > 0, last_page - first_page + 1, 0)
        i_start = i_stop
        stop = i_start + tl.cumsum(num_pages)
        i_stop = tl.max(stop)
        if i_request // REQUESTS % num_programs == i_program:
            m_padded = o_request < num_requests_padded
            last_len = tl.where(seq_len > 0, seq_len - last_page * block_size, 0)
            tl.store(kv_indptr + 1 + o_request, stop, mask=m_padded)
            tl.store(kv_last_page_len + o_request, last_len, mask=m_padded)
        for i_tile in range(next_own_tile(i_start, ENTRIES), (i_stop + ENTRIES - 1) // ENTRIES, num_programs):
            o_entry = i_tile * ENTRIES + tl.arange(0, ENTRIES)
            m_entry = (o_entry >= i_start) & (o_entry < tl.minimum(i_stop, num_entries))
            owner = find_owners(stop - num_pages, i_tile * ENTRIES, ENTRIES)
            # Entry stop - 1 is the request's last page.
            i_column = o_entry + tl.gather(last_page + 1 - stop, owner, 0)
            i_row, m_row = find_rows(row_index, i_request + owner, m_entry, num_rows, HAS_ROW_INDEX)
            o_block = i_row * table_row_stride + i_column * table_column_stride
            block_id = tl.load(block_table + o_block, mask=m_row & (i_column < table_width), other=-1)
            tl.store(kv_indices + o_entry, tl.maximum(block_id, -1).to(tl.int32), mask=m_entry)


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
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
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
    with torch.cuda.device(seq_lens.get_device()):
        _write_kv_indices[(programs_of(num_entries, num_requests_padded),)](
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
            REQUESTS=requests_per_tile(num_requests_padded),
            ENTRIES=ENTRIES_PER_TILE,
            num_warps=NUM_WARPS,
        )
