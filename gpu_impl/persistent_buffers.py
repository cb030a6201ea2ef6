"""Index buffers that outlive a step and are cleared only as far as they were written, as Triton kernels."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.key_counts import check_tokens, count_keys, launch_running_counts

KEYS_PER_BLOCK = 2048
ENTRIES_PER_FILL = 4096


class KeyIndices(NamedTuple):
    """The whole int32 buffers: request of each row, running sum of kv_len, slot of each selected key."""

    token_to_request: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_rows",
        "table_width",
        "table_row_stride",
        "table_column_stride",
        "block_size",
        "num_tokens",
        "max_num_tokens",
        "stop_token",
        "stop_entry",
        "num_row_programs",
    ]
)
def _write_keys(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    topk_indices: tl.tensor,
    block_table: tl.tensor,
    live_requests: tl.tensor,
    kv_indptr: tl.tensor,
    kv_indices: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    block_size: tl.tensor,
    topk: tl.tensor,
    num_tokens: tl.tensor,
    max_num_tokens: tl.tensor,
    stop_token: tl.tensor,
    stop_entry: tl.tensor,
    num_row_programs: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FILL: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_program = tl.program_id(0).to(tl.int64)
    if i_program >= num_row_programs:
        o_fill = (i_program - num_row_programs) * FILL + tl.arange(0, FILL)
        o_token = num_tokens + o_fill
        tl.store(live_requests + o_token, -1, mask=o_token < stop_token)
        num_keys = tl.load(kv_indptr + num_tokens)
        tl.store(kv_indptr + 1 + o_token, num_keys, mask=o_token < max_num_tokens)
        o_entry = o_fill + num_tokens.to(tl.int64) * topk
        tl.store(kv_indices + o_entry, -1, mask=o_entry < stop_entry)
        return
    o_token = i_program * ROWS + tl.arange(0, ROWS)
    m_token = o_token < num_tokens
    i_request, kv_len = count_keys(
        token_to_request, cu_seqlens_q, context_lens, num_requests, o_token, m_token, topk
    )
    tl.store(live_requests + o_token, i_request, mask=m_token)
    first = tl.load(kv_indptr + o_token, mask=m_token, other=0).to(tl.int64)
    table_row = i_request.to(tl.int64) * table_row_stride
    for i_key in range(0, tl.max(kv_len), COLUMNS):
        o_key = i_key + tl.arange(0, COLUMNS)
        m_key = o_key[None, :] < kv_len[:, None]
        o_index = (o_token * topk)[:, None] + o_key[None, :]
        position = tl.load(topk_indices + o_index, mask=m_key, other=-1)
        m_entry = (position >= 0) & (i_request < num_rows)[:, None]
        position = tl.where(m_entry, position, 0)
        i_column = position // block_size
        m_entry = m_entry & (i_column < table_width)
        o_entry = table_row[:, None] + i_column.to(tl.int64) * table_column_stride
        block_id = tl.load(block_table + o_entry, mask=m_entry, other=-1).to(tl.int64)
        slot = tl.where(block_id >= 0, block_id * block_size + position % block_size, -1)
        tl.store(kv_indices + first[:, None] + o_key[None, :], slot.to(tl.int32), mask=m_key)


class PersistentBuffers:
    """The request of each token and the slots of its selected keys, in buffers that never move.

    max_num_tokens is the largest T. The buffers are int32 and start as their pad values: token_to_request
    [max_num_tokens] as -1 (none), kv_indptr [max_num_tokens + 1] as 0, kv_indices [max_num_tokens * topk] as
    -1 (none).
    A step of T rows writes the live extents, T rows and T * topk keys, and clears what the step before wrote
    beyond them; nothing beyond is written, except that every entry of kv_indptr from T on repeats its last
    value. The extents are host numbers, kept for each buffer.
    A replay of a captured graph runs without the host, which then does not know the extents. Therefore a call
    during capture, and every call after it, clears to the full capacity.

    >>> token_to_request, cu_seqlens_q = torch.tensor([0, 2, 2, -1]), torch.tensor([0, 1, 1, 3])
    >>> context_lens, table = torch.tensor([4, 7, 0]), torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> indices = torch.tensor([[4, 1], [0, 99], [1, 0], [99, 99]], dtype=torch.int32)
    >>> buffers = PersistentBuffers(5, 2, token_to_request.device)
    >>> kept = buffers(token_to_request, cu_seqlens_q, context_lens, indices, table, 4)
    >>> kept.token_to_request.tolist(), kept.kv_indptr.tolist(), kept.kv_indices[:5].tolist()
    ([0, 2, 2, -1, -1], [0, 2, 3, 5, 5, 5], [20, 29, 8, 9, 8])
    >>> kept = buffers(token_to_request[:1], cu_seqlens_q, context_lens, indices[:1], table, 4)
    >>> kept.token_to_request.tolist(), kept.kv_indptr.tolist(), kept.kv_indices.tolist()
    ([0, -1, -1, -1, -1], [0, 2, 2, 2, 2, 2], [20, 29, -1, -1, -1, -1, -1, -1, -1, -1])
    """

    def __init__(self, max_num_tokens: int, topk: int, device: torch.device | str) -> None:
        check_int("max_num_tokens", max_num_tokens, 0)
        check_int("topk", topk, 1)
        check_int("max_num_tokens * topk", max_num_tokens * topk, 0)
        self._max_num_tokens = max_num_tokens
        self._topk = topk
        self._buffers = KeyIndices(
            torch.full((max_num_tokens,), -1, dtype=torch.int32, device=device),
            torch.zeros(max_num_tokens + 1, dtype=torch.int32, device=device),
            torch.full((max_num_tokens * topk,), -1, dtype=torch.int32, device=device),
        )
        self._num_live_tokens = 0
        self._num_live_indices = 0
        self._was_captured = False

    def __call__(
        self,
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        topk_indices: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
    ) -> KeyIndices:
        """Write this step into the buffers and return them whole.

        token_to_request [T] (-1 means none; a map padded with 0 is right too), cu_seqlens_q [R+1],
        context_lens [R] in tokens, each int32 or int64; topk_indices int32 [T, topk], contiguous: the
        positions of the keys each token selected, of which the first kv_len are read, kv_len =
        min(context_lens[b] + i + 1, topk) for token i of request b; block_table [num_rows, width] int32 or
        int64 of any strides (-1 means none), row b for request b; block_size in tokens.
        Afterwards token_to_request[t] is the request of row t or -1 (none), kv_indptr[t] the sum of kv_len
        over the rows before t, and kv_indices[kv_indptr[t] + j] the slot of key j of row t:
        table[b][p // block_size] * block_size + p % block_size, which must fit int32, or -1 (none) for a row
        outside the table, for a column past its width (which is not read) and for a negative entry or
        position. kv_indices holds anything from kv_indptr[T] to T * topk.
        Does not synchronise or allocate. Raises ValueError for a wrong dtype, device, shape, stride or host
        number, and for too many tokens, before anything is written.
        Rule: vllm#42982.
        """
        buffers, topk = self._buffers, self._topk
        device = buffers.kv_indptr.device
        check_tokens(token_to_request, cu_seqlens_q, context_lens, device)
        num_tokens = token_to_request.numel()
        check_int("token_to_request.numel()", num_tokens, 0, self._max_num_tokens)
        check_tensor("topk_indices", topk_indices, (torch.int32,), (num_tokens, topk), device)
        check_tensor("block_table", block_table, INDEX_DTYPES, (None, None), device, contiguous=False)
        check_int("block_size", block_size, 1)
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self._was_captured = True
        if self._was_captured:
            self._num_live_tokens = self._max_num_tokens
            self._num_live_indices = self._max_num_tokens * topk
        tokens = (token_to_request, cu_seqlens_q, context_lens)
        columns = min(triton.next_power_of_2(topk), KEYS_PER_BLOCK)
        rows = KEYS_PER_BLOCK // columns
        num_row_programs = -(-num_tokens // rows)
        num_to_clear = self._num_live_indices - num_tokens * topk
        num_to_fill = max(self._max_num_tokens - num_tokens, num_to_clear)
        num_programs = num_row_programs + -(-num_to_fill // ENTRIES_PER_FILL)
        with torch.cuda.device(token_to_request.get_device()):
            if num_tokens > 0:
                launch_running_counts(*tokens, topk, buffers.kv_indptr[1 : num_tokens + 1])
            if num_programs > 0:
                _write_keys[(num_programs,)](
                    *tokens,
                    topk_indices,
                    block_table,
                    *buffers,
                    context_lens.numel(),
                    *block_table.shape,
                    *block_table.stride(),
                    block_size,
                    topk,
                    num_tokens,
                    self._max_num_tokens,
                    self._num_live_tokens,
                    self._num_live_indices,
                    num_row_programs,
                    ROWS=rows,
                    COLUMNS=columns,
                    FILL=ENTRIES_PER_FILL,
                    num_warps=8 if rows == 1 else 4,
                    **early(token_to_request.device),
                )
        self._num_live_tokens = num_tokens
        self._num_live_indices = num_tokens * topk
        return buffers
