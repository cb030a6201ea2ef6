"""The row of a block table that holds each request's blocks."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_tensor


@triton.jit
def find_rows(
    row_index: tl.tensor,
    i_request: tl.tensor,
    m_request: tl.tensor,
    num_rows: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the table row of each request, int64, and where it is a row of the table.

    Without row_index request b has row b. m_request: where i_request may be looked up.
    """
    i_row = i_request.to(tl.int64)
    if HAS_ROW_INDEX:
        i_row = tl.load(row_index + i_request, mask=m_request, other=-1).to(tl.int64)
    return i_row, m_request & (i_row >= 0) & (i_row < num_rows)


def check_table(
    block_table: torch.Tensor, row_index: torch.Tensor | None, num_requests: int | None, device: torch.device
) -> None:
    """Raise ValueError unless both are int32 or int64: a table of any strides, and a row for each request."""
    check_tensor("block_table", block_table, INDEX_DTYPES, (None, None), device, contiguous=False)
    if row_index is not None:
        check_indices("row_index", row_index, num_requests, device)
