"""Running sums and maxima of request lengths in memory: in one launch up to MAX_REQUESTS, beyond in three."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.request_scan import load_lens, scan_lens, shape_of_scan, store_sums

REQUESTS_PER_TILE = 1024
TILES_PER_CHUNK = 1024


@triton.jit(do_not_specialize=["num_requests"])
def _scan_tiles(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    is_prefill: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    num_requests: tl.tensor,
    compress_ratio: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    o_request = i_tile * TILE + tl.arange(0, TILE)
    m_request = o_request < num_requests
    query_len = tl.load(query_lens + o_request, mask=m_request, other=0).to(tl.int32)
    seq_len = query_len + tl.load(context_lens + o_request, mask=m_request, other=0).to(tl.int32)
    num_keys = seq_len // compress_ratio
    if IS_PREFILL_SCOPE:
        num_keys = tl.where(tl.load(is_prefill + o_request, mask=m_request, other=0) != 0, num_keys, 0)
    tl.store(cu_seqlens_q + 1 + o_request, tl.cumsum(query_len), mask=m_request)
    tl.store(cu_seqlens_k + 1 + o_request, tl.cumsum(num_keys), mask=m_request)
    if i_tile == 0:
        tl.store(cu_seqlens_q, 0)
        tl.store(cu_seqlens_k, 0)
        tl.store(max_seqlen_q, 0)
        tl.store(max_seqlen_k, 0)


@triton.jit(do_not_specialize=["num_requests", "last_q"])
def _carry_over_tile_ends(
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    num_requests: tl.tensor,
    last_q: tl.tensor,
    HAS_DUMMY: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    num_tiles = (num_requests + TILE - 1) // TILE
    carry_q = 0
    carry_k = 0
    for i_chunk in range(0, num_tiles, CHUNK):
        o_tile = i_chunk + tl.arange(0, CHUNK)
        m_tile = o_tile < num_tiles
        o_end = tl.minimum((o_tile.to(tl.int64) + 1) * TILE, num_requests)
        sum_q = carry_q + tl.cumsum(tl.load(cu_seqlens_q + o_end, mask=m_tile, other=0))
        sum_k = carry_k + tl.cumsum(tl.load(cu_seqlens_k + o_end, mask=m_tile, other=0))
        carry_q = tl.max(sum_q)
        carry_k = tl.max(sum_k)
        if HAS_DUMMY:
            sum_q = tl.where(o_end == num_requests, last_q, sum_q)
        tl.store(cu_seqlens_q + o_end, sum_q, mask=m_tile)
        tl.store(cu_seqlens_k + o_end, sum_k, mask=m_tile)


@triton.jit(do_not_specialize=["num_requests"])
def _carry_into_tiles(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    num_requests: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_first = tl.program_id(0) * TILE
    o_request = i_first + tl.arange(0, TILE)
    m_request = o_request < num_requests
    query_len = tl.load(query_lens + o_request, mask=m_request, other=0).to(tl.int32)
    seq_len = query_len + tl.load(context_lens + o_request, mask=m_request, other=0).to(tl.int32)
    tl.atomic_max(max_seqlen_q, tl.max(query_len), sem="relaxed")
    tl.atomic_max(max_seqlen_k, tl.max(tl.where(query_len > 0, seq_len, 0)), sem="relaxed")
    # The tile's last entry is already global, and the program of the next tile reads it.
    m_inner = o_request + 1 < tl.minimum(i_first + TILE, num_requests)
    sum_q = tl.load(cu_seqlens_q + 1 + o_request, mask=m_inner, other=0) + tl.load(cu_seqlens_q + i_first)
    sum_k = tl.load(cu_seqlens_k + 1 + o_request, mask=m_inner, other=0) + tl.load(cu_seqlens_k + i_first)
    tl.store(cu_seqlens_q + 1 + o_request, sum_q, mask=m_inner)
    tl.store(cu_seqlens_k + 1 + o_request, sum_k, mask=m_inner)


@triton.jit(do_not_specialize=["num_requests", "last_q"])
def _write_sums(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    is_prefill: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    num_requests: tl.tensor,
    last_q: tl.tensor,
    compress_ratio: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    HAS_DUMMY: tl.constexpr,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    context_len, query_len, num_keys = load_lens(
        context_lens, query_lens, is_prefill, num_requests, compress_ratio, IS_PREFILL_SCOPE, REQUESTS
    )
    stop_q, stop_k = scan_lens(query_len, num_keys)
    store_sums(
        context_len,
        query_len,
        stop_q,
        stop_k,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        num_requests,
        last_q,
        HAS_DUMMY,
        REQUESTS,
    )


def launch_running_sums(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    is_prefill_scope: bool,
    dummy_last_q: int | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: torch.Tensor,
    max_seqlen_k: torch.Tensor,
) -> None:
    """Write the running sums and maxima of `write_sequence_layout`, whose checks have passed.

    There is at least one request. If dummy_last_q is given, it replaces the last entry of cu_seqlens_q.
    """
    num_requests = context_lens.numel()
    requests, _, num_warps = shape_of_scan(num_requests, 0)
    if requests > 0:
        _write_sums[(1,)](
            context_lens,
            query_lens,
            is_prefill,
            cu_seqlens_q,
            cu_seqlens_k,
            max_seqlen_q,
            max_seqlen_k,
            num_requests,
            dummy_last_q or 0,
            compress_ratio,
            IS_PREFILL_SCOPE=is_prefill_scope,
            HAS_DUMMY=dummy_last_q is not None,
            REQUESTS=requests,
            num_warps=num_warps,
            **early(context_lens.device),
        )
        return
    num_tiles = -(-num_requests // REQUESTS_PER_TILE)
    _scan_tiles[(num_tiles,)](
        context_lens,
        query_lens,
        is_prefill,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        num_requests,
        compress_ratio,
        IS_PREFILL_SCOPE=is_prefill_scope,
        TILE=REQUESTS_PER_TILE,
        **early(context_lens.device),
    )
    _carry_over_tile_ends[(1,)](
        cu_seqlens_q,
        cu_seqlens_k,
        num_requests,
        dummy_last_q or 0,
        HAS_DUMMY=dummy_last_q is not None,
        TILE=REQUESTS_PER_TILE,
        CHUNK=TILES_PER_CHUNK,
        **early(context_lens.device),
    )
    _carry_into_tiles[(num_tiles,)](
        context_lens,
        query_lens,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        num_requests,
        TILE=REQUESTS_PER_TILE,
        **early(context_lens.device),
    )
