"""Cached contexts cut into chunks that fit a workspace, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.sequence_layout import KeyScope
from cumae.gpu_impl.tile_ends import carry_over_ends, end_of_tile

# A program has few requests in many chunks, or many in one. Each number of requests is a compile.
ENTRIES_PER_TILE = 512
REQUESTS_PER_TILE = (64, 1024, 4096)
REQUESTS_OF_MANY = 1024  # of a tile, where earlier launches add up tiles


@triton.jit
def _lens_in_chunks(
    context_lens: tl.tensor,
    is_prefill: tl.tensor,
    o_request: tl.tensor,
    start: tl.tensor,
    num_requests: tl.tensor,
    chunk_len: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
) -> tl.tensor:
    """Return the tokens of each request in the chunks that begin at start [CHUNKS, 1], int32."""
    m_request = o_request < num_requests
    context_len = tl.load(context_lens + o_request, mask=m_request, other=0).to(tl.int64)
    if IS_PREFILL_SCOPE:
        m_scope = tl.load(is_prefill + o_request, mask=m_request, other=0) != 0
        context_len = tl.where(m_scope, context_len, 0)
    return tl.minimum(tl.maximum(context_len[None, :] - start, 0), chunk_len).to(tl.int32)


@triton.jit(do_not_specialize=["num_requests", "num_chunks", "chunk_len"])
def _sum_tiles(
    context_lens: tl.tensor,
    is_prefill: tl.tensor,
    chunk_lens: tl.tensor,
    chunk_cu_seqlens: tl.tensor,
    num_requests: tl.tensor,
    num_chunks: tl.tensor,
    chunk_len: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    CHUNKS: tl.constexpr,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(1)
    o_chunk = tl.program_id(0).to(tl.int64) * CHUNKS + tl.arange(0, CHUNKS)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    m_chunk = o_chunk < num_chunks
    start = (o_chunk * chunk_len)[:, None]
    length = _lens_in_chunks(
        context_lens, is_prefill, o_request, start, num_requests, chunk_len, IS_PREFILL_SCOPE
    )
    o_end = o_chunk * (num_requests.to(tl.int64) + 1) + 1 + end_of_tile(i_tile, num_requests, REQUESTS)
    tl.store(chunk_cu_seqlens + o_end, tl.sum(length, axis=1), mask=m_chunk)
    # Until the last launch, the first lengths of a chunk are the maxima of its tiles.
    tl.store(chunk_lens + o_chunk * num_requests + i_tile, tl.max(length, axis=1), mask=m_chunk)


@triton.jit(do_not_specialize=["num_requests"])
def _carry_over_tiles(
    chunk_lens: tl.tensor,
    chunk_cu_seqlens: tl.tensor,
    chunk_totals: tl.tensor,
    chunk_maxima: tl.tensor,
    num_requests: tl.tensor,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_chunk = tl.program_id(0).to(tl.int64)
    cu_seqlens = chunk_cu_seqlens + i_chunk * (num_requests.to(tl.int64) + 1)
    tl.store(cu_seqlens, 0)
    tl.store(chunk_totals + i_chunk, carry_over_ends(cu_seqlens + 1, num_requests, REQUESTS, REQUESTS))
    longest = tl.full((), 0, tl.int32)
    num_tiles = (num_requests + REQUESTS - 1) // REQUESTS
    for i_tile in range(0, num_tiles, REQUESTS):
        o_tile = i_tile + tl.arange(0, REQUESTS)
        maximum = tl.load(chunk_lens + i_chunk * num_requests + o_tile, mask=o_tile < num_tiles, other=0)
        longest = tl.maximum(longest, tl.max(maximum))
    tl.store(chunk_maxima + i_chunk, longest)


@triton.jit(do_not_specialize=["num_requests", "num_chunks", "chunk_len"])
def _write_chunks(
    context_lens: tl.tensor,
    is_prefill: tl.tensor,
    chunk_starts: tl.tensor,
    chunk_lens: tl.tensor,
    chunk_cu_seqlens: tl.tensor,
    chunk_totals: tl.tensor,
    chunk_maxima: tl.tensor,
    num_requests: tl.tensor,
    num_chunks: tl.tensor,
    chunk_len: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    HAS_ENDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(1)
    o_chunk = tl.program_id(0).to(tl.int64) * CHUNKS + tl.arange(0, CHUNKS)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    m_chunk = o_chunk < num_chunks
    start = (o_chunk * chunk_len)[:, None]
    length = _lens_in_chunks(
        context_lens, is_prefill, o_request, start, num_requests, chunk_len, IS_PREFILL_SCOPE
    )
    cu_seqlens = (chunk_cu_seqlens + o_chunk * (num_requests.to(tl.int64) + 1))[:, None]
    m_entry = m_chunk[:, None] & (o_request < num_requests)[None, :]
    o_entry = (o_chunk * num_requests)[:, None] + o_request[None, :]
    tl.store(chunk_starts + o_entry, start.to(tl.int32), mask=m_entry)
    tl.store(chunk_lens + o_entry, length, mask=m_entry)
    sums = tl.cumsum(length, axis=1)
    if HAS_ENDS:
        # The sum at the tile's end is there.
        m_entry = m_entry & (o_request < end_of_tile(i_tile, num_requests, REQUESTS))[None, :]
        sums += tl.load(cu_seqlens + i_tile.to(tl.int64) * REQUESTS, mask=m_chunk[:, None], other=0)
    else:
        tl.store(cu_seqlens, 0, mask=m_chunk[:, None])
        tl.store(chunk_totals + o_chunk, tl.sum(length, axis=1), mask=m_chunk)
        tl.store(chunk_maxima + o_chunk, tl.max(length, axis=1), mask=m_chunk)
    tl.store(cu_seqlens + 1 + o_request[None, :], sums, mask=m_entry)


def write_chunked_context(
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    workspace_tokens: int,
    block_size: int,
    num_with_context: int,
    max_context_len: int,
    key_scope: KeyScope,
    chunk_starts: torch.Tensor,
    chunk_lens: torch.Tensor,
    chunk_cu_seqlens: torch.Tensor,
    chunk_totals: torch.Tensor,
    chunk_maxima: torch.Tensor,
) -> None:
    """Write how the cached contexts of a step are cut into chunks that fit a workspace.

    context_lens [R] int32 or int64, in tokens; is_prefill [R] bool. Host numbers: workspace_tokens, rows of
    the workspace; num_with_context, the requests with context, with key_scope "prefill" those of prefill
    requests only; max_context_len, at least the longest of their contexts.
    A chunk holds c = workspace_tokens // num_with_context, rounded down to whole blocks, tokens of each
    request, and there are C = ceil(max_context_len / c) chunks, none if no request has context. Chunk j
    of request b holds its tokens [j * c, min((j + 1) * c, context_lens[b])), none past its end, and none of
    a request out of scope.
    All int32 and contiguous, chunk by chunk: chunk_starts [C * R]: j * c for every request; chunk_lens
    [C * R]; chunk_cu_seqlens [C * (R+1)]: their running sum in each chunk, from 0; chunk_totals, chunk_maxima
    [C]: their sum and maximum. Every element is written. One launch, or three for more than 4,096 requests.
    Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and if the workspace has no
    room for a block of each request, before anything is written.
    Rule: vLLM's chunked context of MLA prefills; empty chunks are sglang#22688.

    >>> context_lens, is_prefill = torch.tensor([5, 0, 3]), torch.ones(3, dtype=torch.bool)
    >>> chunks = [torch.empty(size, dtype=torch.int32) for size in (6, 6, 8, 2, 2)]
    >>> write_chunked_context(context_lens, is_prefill, 9, 4, 2, 5, "all", *chunks)
    >>> starts, lens, cu_seqlens, totals, maxima = (chunk.tolist() for chunk in chunks)
    >>> starts, lens
    ([0, 0, 0, 4, 4, 4], [4, 0, 3, 1, 0, 0])
    >>> cu_seqlens, totals, maxima
    ([0, 4, 4, 7, 0, 1, 1, 1], [7, 1], [4, 1])
    """
    num_chunks, chunk_len = _check_inputs(
        context_lens,
        is_prefill,
        workspace_tokens,
        block_size,
        num_with_context,
        max_context_len,
        key_scope,
    )
    device, num_requests = context_lens.device, context_lens.numel()
    entries = num_chunks * num_requests
    outputs = {
        "chunk_starts": (chunk_starts, entries),
        "chunk_lens": (chunk_lens, entries),
        "chunk_cu_seqlens": (chunk_cu_seqlens, entries + num_chunks),
        "chunk_totals": (chunk_totals, num_chunks),
        "chunk_maxima": (chunk_maxima, num_chunks),
    }
    for name, (output, size) in outputs.items():
        check_tensor(name, output, (torch.int32,), (size,), device)
    if num_chunks == 0:
        return
    requests = next((size for size in REQUESTS_PER_TILE if num_requests <= size), REQUESTS_OF_MANY)
    num_tiles = -(-num_requests // requests)
    chunks = max(1, ENTRIES_PER_TILE // requests)
    grid = (-(-num_chunks // chunks), num_tiles)
    numbers, is_prefill_scope = (num_requests, num_chunks, chunk_len), key_scope == "prefill"
    sums = chunk_lens, chunk_cu_seqlens, chunk_totals, chunk_maxima
    with torch.cuda.device(context_lens.get_device()):
        if num_tiles > 1:
            _sum_tiles[grid](
                context_lens,
                is_prefill,
                chunk_lens,
                chunk_cu_seqlens,
                *numbers,
                IS_PREFILL_SCOPE=is_prefill_scope,
                CHUNKS=chunks,
                REQUESTS=requests,
                **early(device),
            )
            _carry_over_tiles[(num_chunks,)](*sums, num_requests, REQUESTS=requests, **early(device))
        _write_chunks[grid](
            context_lens,
            is_prefill,
            chunk_starts,
            *sums,
            *numbers,
            IS_PREFILL_SCOPE=is_prefill_scope,
            HAS_ENDS=num_tiles > 1,
            CHUNKS=chunks,
            REQUESTS=requests,
            **early(device),
        )


def _check_inputs(
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    workspace_tokens: int,
    block_size: int,
    num_with_context: int,
    max_context_len: int,
    key_scope: KeyScope,
) -> tuple[int, int]:
    """Return the number of chunks and the tokens of a request in each; ValueError for bad inputs."""
    check_indices("context_lens", context_lens, None)
    num_requests = context_lens.numel()
    check_tensor("is_prefill", is_prefill, (torch.bool,), (num_requests,), context_lens.device)
    check_int("workspace_tokens", workspace_tokens, 0)
    check_int("block_size", block_size, 1)
    check_int("num_with_context", num_with_context, 0, num_requests)
    check_int("max_context_len", max_context_len, 0)
    check_choice("key_scope", key_scope, ("all", "prefill"))
    if num_with_context == 0:
        return 0, 0
    chunk_len = workspace_tokens // num_with_context // block_size * block_size
    if chunk_len == 0:
        needed = num_with_context * block_size
        rule = f">= {needed}, a block of each request with context"
        raise ValueError(f"workspace_tokens = {workspace_tokens}, must be {rule}")
    return -(-max_context_len // chunk_len), chunk_len
