"""The chunks of each sequence for linear attention and convolution, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.owners import (
    NUM_WARPS,
    find_owners,
    next_own_tile,
    own_entries,
    own_tiles,
    shape_of_list,
)
from cumae.gpu_impl.tile_ends import end_of_tile, find_tile, first_of_tile, launch_carries, start_of_tile


@triton.jit
def _count_chunks(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    o_request: tl.tensor,
    num_requests: tl.tensor,
    chunk_size: tl.tensor,
    IS_ABSOLUTE: tl.constexpr,
) -> tl.tensor:
    """Return the number of chunks of each sequence, int32; 0 past the last live one."""
    m_request = o_request < num_requests
    start = tl.load(cu_seqlens_q + o_request, mask=m_request, other=0)
    query_len = (tl.load(cu_seqlens_q + 1 + o_request, mask=m_request, other=0) - start).to(tl.int32)
    num_tokens = query_len
    if IS_ABSOLUTE:
        # The first chunk began at a multiple of chunk_size, maybe before the first row.
        num_tokens += tl.load(context_lens + o_request, mask=m_request, other=0).to(tl.int32) % chunk_size
    return tl.where(query_len > 0, (num_tokens - 1) // chunk_size + 1, 0)


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded"])
def _sum_tiles(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    chunk_offsets: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    chunk_size: tl.tensor,
    IS_ABSOLUTE: tl.constexpr,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    num_chunks = _count_chunks(cu_seqlens_q, context_lens, o_request, num_requests, chunk_size, IS_ABSOLUTE)
    i_end = end_of_tile(i_tile, num_requests_padded, REQUESTS)
    tl.store(chunk_offsets + 1 + i_end, tl.sum(num_chunks).to(tl.int64))


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded", "num_rows"])
def _write_sequence_chunks(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    chunk_sequences: tl.tensor,
    chunk_numbers: tl.tensor,
    chunk_offsets: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    num_rows: tl.tensor,
    chunk_size: tl.tensor,
    IS_ABSOLUTE: tl.constexpr,
    HAS_ENDS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    sums = chunk_offsets + 1
    total = num_rows
    if i_program == 0:
        tl.store(chunk_offsets, 0)
    if HAS_ENDS:
        # The last programs write the sums of a tile of requests each. The one at its end is there.
        num_programs -= (num_requests_padded + REQUESTS - 1) // REQUESTS
        i_request_tile = i_program - num_programs
        if i_request_tile >= 0:
            o_request = first_of_tile(i_request_tile, REQUESTS) + tl.arange(0, REQUESTS)
            num_chunks = _count_chunks(
                cu_seqlens_q, context_lens, o_request, num_requests, chunk_size, IS_ABSOLUTE
            )
            m_inner = o_request < end_of_tile(i_request_tile, num_requests_padded, REQUESTS)
            stop = start_of_tile(sums, i_request_tile, REQUESTS) + tl.cumsum(num_chunks)
            tl.store(sums + o_request, stop, mask=m_inner)
            return
        total = tl.load(chunk_offsets + num_requests_padded).to(tl.int32)
    i_entry, i_end = own_entries(tl.minimum(total, num_rows), num_programs, ENTRIES, HAS_ENDS)
    while i_entry < i_end:
        i_request = tl.full((), 0, tl.int32)
        i_start = tl.full((), 0, tl.int32)
        if HAS_ENDS:
            i_request_tile = find_tile(sums, num_requests_padded, i_entry, REQUESTS)
            i_request = first_of_tile(i_request_tile, REQUESTS)
            i_start = start_of_tile(sums, i_request_tile, REQUESTS).to(tl.int32)
        o_request = i_request + tl.arange(0, REQUESTS)
        num_chunks = _count_chunks(
            cu_seqlens_q, context_lens, o_request, num_requests, chunk_size, IS_ABSOLUTE
        )
        stop = i_start + tl.cumsum(num_chunks)
        i_stop = tl.max(stop)
        if not HAS_ENDS:
            total = i_stop
            if i_program == 0:
                tl.store(sums + o_request, stop.to(tl.int64), mask=o_request < num_requests_padded)
        first = stop - num_chunks
        first_tile, stop_tile, step = own_tiles(i_entry, i_stop, i_end, num_programs, ENTRIES, HAS_ENDS)
        for i_tile in range(first_tile, stop_tile, step):
            o_row = i_tile * ENTRIES + tl.arange(0, ENTRIES)
            m_row = (o_row >= i_start) & (o_row < tl.minimum(i_stop, num_rows))
            owner = find_owners(first, i_tile * ENTRIES, ENTRIES)
            tl.store(chunk_sequences + o_row, i_request + owner, mask=m_row)
            tl.store(chunk_numbers + o_row, (o_row - tl.gather(first, owner, 0)).to(tl.int32), mask=m_row)
        i_entry = tl.maximum(i_stop, 1)
    first_tile = next_own_tile(total, num_programs, ENTRIES)
    for i_tile in range(first_tile, (num_rows + ENTRIES - 1) // ENTRIES, num_programs):
        o_row = i_tile * ENTRIES + tl.arange(0, ENTRIES)
        m_row = (o_row >= total) & (o_row < num_rows)
        tl.store(chunk_sequences + o_row, -1, mask=m_row)
        tl.store(chunk_numbers + o_row, 0, mask=m_row)


def write_sequence_chunks(
    cu_seqlens_q: torch.Tensor,
    chunk_context_lens: torch.Tensor | None,
    num_requests: int,
    chunk_size: int,
    chunk_sequences: torch.Tensor,
    chunk_numbers: torch.Tensor,
    chunk_offsets: torch.Tensor,
) -> None:
    """Write the pairs (sequence, chunk) of a step whose sequences are cut into chunks of chunk_size tokens.

    cu_seqlens_q [R+1]; chunk_context_lens [R], cached tokens, or None; each int32 or int64, in tokens, below
    2**31.
    The first num_requests of the R sequences are live; nothing is read of the others.
    Without chunk_context_lens, chunks are counted from the first row of the sequence: there are
    ceil(query_len / chunk_size). With it, chunks are absolute: they end at multiples of chunk_size of the
    position, so the first may be short, and there are
    ceil((context_len + query_len) / chunk_size) - context_len // chunk_size. A sequence without rows has none
    in both cases.
    chunk_sequences, chunk_numbers int32 [N]: for each chunk in order the sequence, empty ones counted, and
    the number of the chunk in its sequence, from 0; (-1, 0) from the last chunk on. N must not be smaller
    than the number of chunks; chunks past N are dropped. chunk_offsets int64 [R+1]: running sum of the
    chunks, which padded sequences do not raise. All three are contiguous, and every element is written.
    One launch, or three for more than 4,096 sequences. Does not synchronise or allocate, so a CUDA graph can
    capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: fla prepare_chunk_indices, prepare_chunk_indices_static; vLLM _compute_chunk_metadata (absolute).

    >>> chunks = [torch.empty(5, dtype=dtype) for dtype in (torch.int32, torch.int32)]
    >>> chunk_offsets = torch.empty(4, dtype=torch.int64)
    >>> write_sequence_chunks(torch.tensor([0, 6, 6, 9]), None, 3, 4, *chunks, chunk_offsets)
    >>> [chunk.tolist() for chunk in chunks], chunk_offsets.tolist()
    ([[0, 0, 2, -1, -1], [0, 1, 0, 0, 0]], [0, 2, 2, 3])
    >>> context_lens = torch.tensor([3, 7, 2])
    >>> write_sequence_chunks(torch.tensor([0, 6, 6, 9]), context_lens, 3, 4, *chunks, chunk_offsets)
    >>> [chunk.tolist() for chunk in chunks], chunk_offsets.tolist()
    ([[0, 0, 0, 2, 2], [0, 1, 2, 0, 1]], [0, 3, 3, 5])
    """
    check_indices("cu_seqlens_q", cu_seqlens_q, None)
    device, num_requests_padded = cu_seqlens_q.device, cu_seqlens_q.numel() - 1
    if num_requests_padded < 0:
        raise ValueError("cu_seqlens_q.shape = (0,), must have an entry more than requests")
    if chunk_context_lens is not None:
        check_indices("chunk_context_lens", chunk_context_lens, num_requests_padded, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_int("chunk_size", chunk_size, 1)
    check_tensor("chunk_sequences", chunk_sequences, (torch.int32,), (None,), device)
    num_rows = chunk_sequences.numel()
    check_tensor("chunk_numbers", chunk_numbers, (torch.int32,), (num_rows,), device)
    check_tensor("chunk_offsets", chunk_offsets, (torch.int64,), (num_requests_padded + 1,), device)
    is_absolute = chunk_context_lens is not None
    context_lens = cu_seqlens_q if chunk_context_lens is None else chunk_context_lens
    shape = shape_of_list(num_rows, num_requests_padded)
    with torch.cuda.device(cu_seqlens_q.get_device()):
        if shape.has_ends:
            _sum_tiles[(shape.num_tiles,)](
                cu_seqlens_q,
                context_lens,
                chunk_offsets,
                num_requests,
                num_requests_padded,
                chunk_size,
                IS_ABSOLUTE=is_absolute,
                REQUESTS=shape.requests,
                num_warps=NUM_WARPS,
                **early(cu_seqlens_q.device),
            )
            launch_carries(chunk_offsets[1:], None, num_requests_padded, shape.requests)
        _write_sequence_chunks[(shape.num_programs + shape.has_ends * shape.num_tiles,)](
            cu_seqlens_q,
            context_lens,
            chunk_sequences,
            chunk_numbers,
            chunk_offsets,
            num_requests,
            num_requests_padded,
            num_rows,
            chunk_size,
            IS_ABSOLUTE=is_absolute,
            HAS_ENDS=shape.has_ends,
            REQUESTS=shape.requests,
            ENTRIES=shape.entries,
            num_warps=NUM_WARPS,
            **early(cu_seqlens_q.device),
        )
