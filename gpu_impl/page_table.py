"""The page table that attention reads, gathered from the rows of a block table, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.table_rows import check_table, find_rows

PAGES_PER_TILE = 1024
MAX_COLUMNS = 512


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_rows",
        "num_columns",
        "table_row_stride",
        "num_requests_padded",
        "window",
    ]
)
def _write_pages(
    block_table: tl.tensor,
    row_index: tl.tensor,
    context_lens: tl.tensor,
    seq_lens: tl.tensor,
    page_table: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    num_columns: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    num_requests_padded: tl.tensor,
    width: tl.tensor,
    tokens_per_entry: tl.tensor,
    window: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0).to(tl.int64)
    tiles_per_row = (width - 1) // COLUMNS + 1
    o_request = i_tile // tiles_per_row * ROWS + tl.arange(0, ROWS)
    o_column = i_tile % tiles_per_row * COLUMNS + tl.arange(0, COLUMNS)
    m_row = o_request < num_requests
    seq_len = tl.load(seq_lens + o_request, mask=m_row, other=0).to(tl.int32)
    num_pages = tl.where(seq_len > 0, (seq_len - 1) // tokens_per_entry + 1, 0)
    m_page = o_column[None, :] < tl.minimum(num_pages, num_columns)[:, None]
    if HAS_WINDOW:
        context_len = tl.load(context_lens + o_request, mask=m_row, other=0).to(tl.int32)
        # The step's first token sees window - 1 tokens before it.
        first_seen = tl.maximum(context_len - (window - 1), 0) // tokens_per_entry
        m_page = m_page & (o_column[None, :] >= first_seen[:, None])
    i_row, m_row = find_rows(row_index, o_request, m_row, num_rows, HAS_ROW_INDEX)
    o_entry = (i_row * table_row_stride)[:, None] + (o_column * table_column_stride)[None, :]
    block_id = tl.load(block_table + o_entry, mask=m_row[:, None] & m_page, other=0)
    page = tl.maximum(block_id, -1).to(tl.int32)
    o_page = (o_request * width)[:, None] + o_column[None, :]
    m_page = (o_request < num_requests_padded)[:, None] & (o_column < width)[None, :]
    tl.store(page_table + o_page, page, mask=m_page)


def write_page_table(
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    context_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    num_requests: int,
    tokens_per_entry: int,
    window: int,
    page_table: torch.Tensor,
) -> None:
    """Write each request's pages, in order of position, into page_table int32 [R, W], contiguous.

    block_table [num_rows, width] of any strides (a negative entry means no block); row_index [R], the table
    row of each request (-1 means none), or None (request b has row b); context_lens and seq_lens [R], in
    tokens, the cached ones and all of them, below 2**31; each int32 or int64. The first num_requests of the R
    requests are live. An entry of the table holds tokens_per_entry tokens.
    Row b holds the entries 0 .. ceil(seq_lens[b] / tokens_per_entry) - 1 of the request's table row, at most
    W and at most the table's width; a negative entry becomes -1. With a window W > 0 (0 means none), columns
    below max(context_lens[b] - (window - 1), 0) // tokens_per_entry hold 0, because no token of the step
    sees them. All other columns hold 0, and so do the rows from num_requests on, where no length or row is
    read, and rows of requests whose row is outside the table. Every element is written.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM _gather_block_tables_kernel; SGLang normal_decode_set_metadata.

    >>> block_table = torch.tensor([[7, 5, 9], [3, -1, -1], [2, -7, 4]])
    >>> row_index, context_lens = torch.tensor([2, 1, 0, 9]), torch.tensor([6, 0, 2, 99])
    >>> seq_lens, pages = torch.tensor([9, 0, 5, 99]), torch.empty((4, 3), dtype=torch.int32)
    >>> write_page_table(block_table, row_index, context_lens, seq_lens, 3, 4, 2, pages)
    >>> pages.tolist()
    [[0, -1, 4], [0, 0, 0], [7, 5, 0], [0, 0, 0]]
    """
    check_indices("context_lens", context_lens, None)
    device, num_requests_padded = context_lens.device, context_lens.numel()
    check_indices("seq_lens", seq_lens, num_requests_padded, device)
    check_table(block_table, row_index, num_requests_padded, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_int("tokens_per_entry", tokens_per_entry, 1)
    check_int("window", window, 0)
    check_tensor("page_table", page_table, (torch.int32,), (num_requests_padded, None), device)
    if page_table.numel() == 0:
        return
    (num_rows, table_width), width = block_table.shape, page_table.shape[1]
    columns = min(triton.next_power_of_2(width), MAX_COLUMNS)
    rows = PAGES_PER_TILE // columns
    with torch.cuda.device(block_table.get_device()):
        _write_pages[(-(-num_requests_padded // rows) * -(-width // columns),)](
            block_table,
            block_table if row_index is None else row_index,
            context_lens,
            seq_lens,
            page_table,
            num_requests,
            num_rows,
            min(table_width, width),
            *block_table.stride(),
            num_requests_padded,
            width,
            tokens_per_entry,
            window,
            HAS_ROW_INDEX=row_index is not None,
            HAS_WINDOW=window > 0,
            ROWS=rows,
            COLUMNS=columns,
            **early(block_table.device),
        )
