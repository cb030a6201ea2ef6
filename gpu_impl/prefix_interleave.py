"""Contiguous keys of each request, cached prefix and new rows together, as a Triton kernel."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_int, check_tensor
from cumae.gpu_impl.copy_grain import WORDS_OF_GRAIN, as_bytes, grain_bytes
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.request_scan import count_stops
from cumae.gpu_impl.word_list import copy_word_list

# Tuned together: a program copies rows in passes of at most COLUMNS words of up to 8 bytes of each. If the
# rows are few it has ROWS_OF_FEW, else one warp, and as many as make a pass of WORDS_OF_MANY.
MOST_OF_FEW = 8192
ROWS_OF_FEW = 16
WORDS_OF_MANY = 1024
COLUMNS = 256
# Short rows whose grain is small, such as an indexer's, leave half the threads of such a pass idle. If there
# are many, a program copies its ROWS_OF_FLAT rows as one list, which it stores 16 bytes at a time, in passes
# of VECTORS_OF_FLAT times as many. If one of them has no source, it copies row by row, in passes of
# COLUMNS_BESIDE_FLAT words of each: more words would take more registers, also for the list. The largest step
# of `cumae lint` has LEAST_OF_FLAT rows; the list is the faster way somewhat above.
LEAST_OF_FLAT = 30_000
BYTES_OF_FLAT = 512
ROWS_OF_FLAT = 128
VECTORS_OF_FLAT = 256
COLUMNS_BESIDE_FLAT = 4


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_new_rows",
        "num_blocks",
        "capacity",
        "table_width",
        "table_row_stride",
    ]
)
def _copy_rows(
    cache: tl.tensor,
    new_rows: tl.tensor,
    block_table: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    context_lens: tl.tensor,
    keys: tl.tensor,
    num_requests: tl.tensor,
    num_new_rows: tl.tensor,
    num_blocks: tl.tensor,
    block_size: tl.tensor,
    capacity: tl.tensor,
    width: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    cache_block_stride: tl.tensor,
    cache_row_stride: tl.tensor,
    new_row_stride: tl.tensor,
    key_row_stride: tl.tensor,
    WORD: tl.constexpr,
    WORDS_PER_GRAIN: tl.constexpr,
    GRAIN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    IS_FLAT: tl.constexpr,
    WORDS_OF_ACCESS: tl.constexpr,
    VECTORS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_first = tl.program_id(0).to(tl.int64) * ROWS
    i_stop = tl.minimum(tl.load(cu_seqlens_k + num_requests).to(tl.int64), capacity)
    if i_first >= i_stop:
        return
    o_row = i_first + tl.arange(0, ROWS)
    m_row = o_row < i_stop

    # The request of a row is the first whose end lies past it: searched for the first row, then the last.
    cu_stops = cu_seqlens_k + 1
    zero = tl.full((), 0, tl.int32)
    first_request = count_stops(cu_seqlens_k, num_requests, zero, i_first)
    i_last = tl.minimum(i_first + ROWS, i_stop) - 1
    last_request = count_stops(cu_seqlens_k, num_requests, first_request, i_last)

    i_request = tl.full((ROWS,), 0, tl.int32) + first_request
    high_request = tl.full((ROWS,), 0, tl.int32) + last_request
    span = last_request - first_request
    while span > 0:
        middle_request = (i_request + high_request) // 2
        is_inside = tl.load(cu_stops + middle_request) > o_row
        high_request = tl.where(is_inside, middle_request, high_request)
        i_request = tl.where(is_inside, i_request, middle_request + 1)
        span = span // 2

    position = o_row - tl.load(cu_seqlens_k + i_request, mask=m_row, other=0)
    position = tl.where(m_row, position, 0)
    context_len = tl.load(context_lens + i_request, mask=m_row, other=0)
    m_cached = m_row & (position < context_len)
    i_column = position // block_size
    m_block = m_cached & (i_column < table_width)
    entry = i_request.to(tl.int64) * table_row_stride + i_column * table_column_stride
    block_id = tl.load(block_table + entry, mask=m_block, other=-1).to(tl.int64)
    m_block = m_block & (block_id >= 0) & (block_id < num_blocks)
    i_new = tl.load(cu_seqlens_q + i_request, mask=m_row, other=0).to(tl.int64) + position - context_len
    m_new = m_row & (position >= context_len) & (i_new < num_new_rows)
    m_copied = m_block | m_new
    cached_row = block_id * cache_block_stride + position % block_size * cache_row_stride
    new_row = i_new * new_row_stride
    num_words = width * WORDS_PER_GRAIN

    if IS_FLAT:
        if tl.sum(m_copied.to(tl.int32)) == ROWS:
            row_bytes = num_words * (WORD.primitive_bitwidth // 8)
            cached_begin = cache.to(tl.int64) + cached_row * GRAIN
            begin = tl.where(m_cached, cached_begin, new_rows.to(tl.int64) + new_row * GRAIN)
            begin = begin - tl.arange(0, ROWS).to(tl.int64) * row_bytes
            target = keys.to(tl.pointer_type(WORD)) + i_first * num_words
            copy_word_list(begin, target, num_words, WORD, WORDS_OF_ACCESS, ROWS, VECTORS)
            return
    source = tl.where(
        m_cached,
        cache.to(tl.pointer_type(WORD)) + cached_row * WORDS_PER_GRAIN,
        new_rows.to(tl.pointer_type(WORD)) + new_row * WORDS_PER_GRAIN,
    )
    # A choice between two pointers loses their divisibility, and without it loads are half as wide.
    source = tl.multiple_of(source, GRAIN)
    target = keys.to(tl.pointer_type(WORD)) + o_row * key_row_stride * WORDS_PER_GRAIN
    for i_word in range(0, num_words, COLUMNS):
        o_word = i_word + tl.arange(0, COLUMNS)
        m_word = m_copied[:, None] & (o_word < num_words)[None, :]
        words = tl.load(source[:, None] + o_word[None, :], mask=m_word, other=0)
        tl.store(target[:, None] + o_word[None, :], words, mask=m_word)


def write_prefix_interleave(
    cache: torch.Tensor,
    new_rows: torch.Tensor,
    block_table: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    context_lens: torch.Tensor,
    max_context_len: int,
    keys: torch.Tensor,
    host_seq_lens: Sequence[int] | None = None,
) -> None:
    """Write the keys of each request, cached prefix first, as contiguous rows into keys [capacity, width].

    cache [num_blocks, block_size, width], new_rows [N, width] and keys of one dtype with items of 1, 2, 4 or
    8 bytes, any strides but the last; the rows of keys do not overlap. block_table [>= R, table_width] of any
    strides, cu_seqlens_q, cu_seqlens_k [R+1] and context_lens [R], each int32 or int64. cu_seqlens_k counts
    key rows; a request outside its scope has none.
    Row cu_seqlens_k[b] + p is cache[block_table[b][p // block_size], p % block_size] for p < context_lens[b],
    else new_rows[cu_seqlens_q[b] + p - context_lens[b]], bit for bit. A column past the table, an id outside
    the cache and a row past new_rows are not read. Rows at or past cu_seqlens_k[-1] or capacity are
    untouched, and so is a row whose source does not exist.
    block_table may be None or have no columns only where max_context_len, a host number, is 0. host_seq_lens,
    at most R host lengths, are checked against capacity; without them rows beyond it are dropped. Does not
    synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: FastDeploy#7727; offsets past 2^31 are sglang#14224 and vllm#50427.

    >>> cache = torch.tensor([[[10], [11]], [[20], [21]], [[30], [31]]])
    >>> new_rows, table = torch.tensor([[90], [91], [92]]), torch.tensor([[2, 0], [-1, -1], [1, -1]])
    >>> cu_seqlens_q, cu_seqlens_k = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 4, 4, 7])
    >>> context_lens, keys = torch.tensor([3, 0, 1]), torch.empty((7, 1), dtype=torch.int64)
    >>> write_prefix_interleave(cache, new_rows, table, cu_seqlens_q, cu_seqlens_k, context_lens, 3, keys)
    >>> keys.flatten().tolist()
    [30, 31, 10, 90, 20, 91, 92]
    """
    _check_rows("cache", cache, 3, cache)
    _check_rows("new_rows", new_rows, 2, cache)
    _check_rows("keys", keys, 2, cache)
    device, (num_blocks, block_size, width) = cache.device, cache.shape
    capacity = keys.shape[0]
    if block_size < 1:
        raise ValueError(f"cache.shape = {tuple(cache.shape)}, must have a block_size >= 1")
    if capacity > 1 and keys.stride(0) < width:
        raise ValueError(f"keys.stride() = {keys.stride()}, must be >= {width} in the first dimension")
    check_indices("context_lens", context_lens, None, device)
    num_requests = context_lens.numel()
    check_indices("cu_seqlens_q", cu_seqlens_q, num_requests + 1, device)
    check_indices("cu_seqlens_k", cu_seqlens_k, num_requests + 1, device)
    check_int("max_context_len", max_context_len, 0)
    if block_table is not None:
        check_tensor("block_table", block_table, INDEX_DTYPES, (None, None), device, contiguous=False)
        if block_table.shape[0] < num_requests:
            shape = tuple(block_table.shape)
            raise ValueError(f"block_table.shape = {shape}, must have >= {num_requests} rows")
    table_width = 0 if block_table is None else block_table.shape[1]
    if table_width == 0 and max_context_len > 0:
        table = "block_table" if block_table is None else "block_table.shape"
        value = None if block_table is None else tuple(block_table.shape)
        rule = f"must have columns where max_context_len = {max_context_len} > 0"
        raise ValueError(f"{table} = {value}, {rule}")
    if host_seq_lens is not None:
        _check_capacity(host_seq_lens, num_requests, capacity)
    if 0 in (num_requests, capacity, width):
        return

    grain = grain_bytes(cache, new_rows, keys)
    word, words_per_grain = WORDS_OF_GRAIN[grain]
    grains = width * cache.element_size() // grain
    strides = (*cache.stride()[:2], new_rows.stride(0), keys.stride(0))
    columns = min(COLUMNS, triton.next_power_of_2(grains * words_per_grain))
    rows, num_warps = (ROWS_OF_FEW, 4) if capacity <= MOST_OF_FEW else (WORDS_OF_MANY // columns, 1)
    # What is stored at once lies in two rows at most, at a multiple of 16 bytes.
    is_short = grain < 16 <= grains * grain < BYTES_OF_FLAT
    is_dense = keys.stride(0) == width and keys.data_ptr() % 16 == 0
    is_flat = capacity >= LEAST_OF_FLAT and is_short and is_dense
    if is_flat:
        rows, columns, num_warps = ROWS_OF_FLAT, COLUMNS_BESIDE_FLAT, 4
    with torch.cuda.device(cache.get_device()):
        _copy_rows[(-(-capacity // rows),)](
            as_bytes(cache),
            as_bytes(new_rows),
            cu_seqlens_k if block_table is None else block_table,
            cu_seqlens_q,
            cu_seqlens_k,
            context_lens,
            as_bytes(keys),
            num_requests,
            new_rows.shape[0],
            num_blocks,
            block_size,
            capacity,
            grains,
            table_width,
            *((0, 0) if block_table is None else block_table.stride()),
            *(stride * cache.element_size() // grain for stride in strides),
            WORD=word,
            WORDS_PER_GRAIN=words_per_grain,
            GRAIN=grain,
            ROWS=rows,
            COLUMNS=columns,
            IS_FLAT=is_flat,
            WORDS_OF_ACCESS=16 // grain if is_flat else 1,
            VECTORS=VECTORS_OF_FLAT if is_flat else 1,
            num_warps=num_warps,
            **early(cache.device),
        )


def _check_rows(name: str, rows: torch.Tensor, num_axes: int, cache: torch.Tensor) -> None:
    if not isinstance(cache, torch.Tensor):
        raise ValueError(f"cache = {cache!r}, must be a tensor")
    width = cache.shape[-1] if cache.dim() == 3 else None
    shape = (*[None] * (num_axes - 1), width)
    check_tensor(name, rows, (cache.dtype,), shape, cache.device, contiguous=False)
    if rows.element_size() not in (1, 2, 4, 8):
        raise ValueError(f"{name}.dtype = {rows.dtype}, must have items of 1, 2, 4 or 8 bytes")
    if rows.stride(-1) != 1:
        strides = f"{rows.stride()} with shape {tuple(rows.shape)}"
        raise ValueError(f"{name}.stride() = {strides}, must be contiguous in the last dimension")


def _check_capacity(host_seq_lens: Sequence[int], num_requests: int, capacity: int) -> None:
    if len(host_seq_lens) > num_requests:
        rule = f"must be <= len(context_lens) = {num_requests}"
        raise ValueError(f"len(host_seq_lens) = {len(host_seq_lens)}, {rule}")
    for i_request, seq_len in enumerate(host_seq_lens):
        check_int(f"host_seq_lens[{i_request}]", seq_len, 0)
    if sum(host_seq_lens) > capacity:
        raise ValueError(f"capacity = {capacity}, must be >= sum(host_seq_lens) = {sum(host_seq_lens)}")
