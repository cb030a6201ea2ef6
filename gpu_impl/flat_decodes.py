"""The key counts of a step's tokens, each as a decode of its own, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.key_counts import TOKENS_PER_TILE, launch_carries_into_tiles
from cumae.gpu_impl.owners import (
    NUM_WARPS,
    find_owners,
    next_own_tile,
    shape_of_list,
)
from cumae.gpu_impl.request_scan import count_near_stops, count_stops, owners_between


@triton.jit
def _sum_selected(context_len: tl.tensor, num_tokens: tl.tensor, topk: tl.tensor) -> tl.tensor:
    """Return the keys that the first num_tokens tokens of a request select together, int32.

    The first tokens select all their keys: context_len + 1, context_len + 2 and so on, until topk is reached.
    """
    context_len = context_len.to(tl.int64)
    num_below = tl.minimum(tl.maximum(topk - context_len, 0), num_tokens)
    selected = num_below * context_len + num_below * (num_below + 1) // 2
    return (selected + (num_tokens - num_below) * topk).to(tl.int32)


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "topk"])
def _write_flat_decodes(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    key_lens: tl.tensor,
    selected_lens: tl.tensor,
    selected_indptr: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    topk: tl.tensor,
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    num_programs = tl.num_programs(0)
    if tl.program_id(0) == 0:
        tl.store(selected_indptr, 0)
    o_request = tl.arange(0, REQUESTS)
    m_request = o_request < num_requests
    first = tl.load(cu_seqlens_q + o_request, mask=m_request, other=0).to(tl.int32)
    stop = tl.load(cu_seqlens_q + 1 + o_request, mask=m_request, other=0).to(tl.int32)
    context_len = tl.load(context_lens + o_request, mask=m_request, other=0).to(tl.int32)
    num_selected = _sum_selected(context_len, stop - first, topk)
    before = tl.cumsum(num_selected) - num_selected
    total = tl.sum(num_selected)
    i_stop = tl.max(stop)
    first = tl.where(m_request, first, i_stop)
    first_tile = next_own_tile(tl.full((), 0, tl.int32), num_programs, ENTRIES)
    for i_tile in range(first_tile, (i_stop + ENTRIES - 1) // ENTRIES, num_programs):
        o_token = i_tile * ENTRIES + tl.arange(0, ENTRIES)
        m_token = o_token < tl.minimum(i_stop, num_tokens_padded)
        owner = find_owners(first, i_tile * ENTRIES, ENTRIES)
        num_tokens = o_token - tl.gather(first, owner, 0) + 1
        context_len_of_token = tl.gather(context_len, owner, 0)
        key_len = context_len_of_token + num_tokens
        sum_ = tl.gather(before, owner, 0) + _sum_selected(context_len_of_token, num_tokens, topk)
        tl.store(key_lens + o_token, key_len.to(tl.int32), mask=m_token)
        tl.store(selected_lens + o_token, tl.minimum(key_len, topk).to(tl.int32), mask=m_token)
        tl.store(selected_indptr + 1 + o_token, sum_, mask=m_token)
    num_tiles = (num_tokens_padded + ENTRIES - 1) // ENTRIES
    for i_tile in range(next_own_tile(i_stop, num_programs, ENTRIES), num_tiles, num_programs):
        o_token = i_tile * ENTRIES + tl.arange(0, ENTRIES)
        m_token = (o_token >= i_stop) & (o_token < num_tokens_padded)
        tl.store(key_lens + o_token, 0, mask=m_token)
        tl.store(selected_lens + o_token, 0, mask=m_token)
        tl.store(selected_indptr + 1 + o_token, total, mask=m_token)


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "topk"])
def _write_tokens(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    key_lens: tl.tensor,
    selected_lens: tl.tensor,
    selected_indptr: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    topk: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # Sums count from the first token of the tile.
    i_tile = tl.program_id(0)
    if i_tile == 0:
        tl.store(selected_indptr, 0)
    num_tokens = tl.load(cu_seqlens_q + num_requests)
    i_first = i_tile.to(tl.int64) * TILE
    o_token = i_first + tl.arange(0, TILE)
    m_token = o_token < num_tokens_padded
    key_len = tl.full((TILE,), 0, tl.int32)
    if i_first < num_tokens:
        low = count_stops(cu_seqlens_q, num_requests, tl.full((), 0, tl.int32), i_first)
        high = count_near_stops(cu_seqlens_q, num_requests, low, i_first + TILE)
        i_request = owners_between(cu_seqlens_q, low, high, i_first, TILE)
        m_live = m_token & (o_token < num_tokens)
        shift = tl.load(context_lens + i_request, mask=m_live, other=0).to(tl.int64)
        shift -= tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
        key_len = tl.where(m_live, o_token + shift + 1, 0).to(tl.int32)
    selected_len = tl.minimum(key_len, topk)
    tl.store(key_lens + o_token, key_len, mask=m_token)
    tl.store(selected_lens + o_token, selected_len, mask=m_token)
    tl.store(selected_indptr + 1 + o_token, tl.cumsum(selected_len), mask=m_token)


def write_flat_decodes(
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    num_requests: int,
    topk: int,
    key_lens: torch.Tensor,
    selected_lens: torch.Tensor,
    selected_indptr: torch.Tensor,
) -> None:
    """Write how many keys each token of a step has, as a decode of its own, and how many it selects.

    cu_seqlens_q [R+1], context_lens [R], each int32 or int64, in tokens. The first num_requests of the R
    requests are live; nothing is read of the others. topk >= 1 keys are selected at most.
    All outputs are int32 and contiguous, of T tokens with padding. key_lens [T]: token i of request b has
    context_lens[b] + i + 1. selected_lens [T]: min(key_len, topk). Both hold 0 in padding rows, those from
    cu_seqlens_q[num_requests] on. selected_indptr [T+1]: running sum of selected_lens from 0, which must fit
    int32. Every element is written.
    One launch, or three for more than 4,096 requests. Does not synchronise or allocate, so a CUDA graph can
    capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM _indexer_decode_metadata_kernel, generate_sparse_seqlen_triton; SGLang seqlens_expand_triton.

    >>> cu_seqlens_q, context_lens = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 4, 0])
    >>> decodes = [torch.empty(size, dtype=torch.int32) for size in (6, 6, 7)]
    >>> write_flat_decodes(cu_seqlens_q, context_lens, 3, 2, *decodes)
    >>> key_lens, selected_lens, selected_indptr = (part.tolist() for part in decodes)
    >>> key_lens, selected_lens
    ([4, 5, 1, 2, 3, 0], [2, 2, 1, 2, 2, 0])
    >>> selected_indptr
    [0, 2, 4, 5, 7, 9, 9]
    """
    check_indices("context_lens", context_lens, None)
    device, num_requests_padded = context_lens.device, context_lens.numel()
    check_indices("cu_seqlens_q", cu_seqlens_q, num_requests_padded + 1, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_int("topk", topk, 1)
    check_tensor("key_lens", key_lens, (torch.int32,), (None,), device)
    num_tokens_padded = key_lens.numel()
    check_tensor("selected_lens", selected_lens, (torch.int32,), (num_tokens_padded,), device)
    check_tensor("selected_indptr", selected_indptr, (torch.int32,), (num_tokens_padded + 1,), device)
    shape = shape_of_list(num_tokens_padded, num_requests)
    arguments = (cu_seqlens_q, context_lens, key_lens, selected_lens, selected_indptr)
    with torch.cuda.device(context_lens.get_device()):
        if shape.has_ends:
            _write_tokens[(max(1, -(-num_tokens_padded // TOKENS_PER_TILE)),)](
                *arguments,
                num_requests,
                num_tokens_padded,
                topk,
                TILE=TOKENS_PER_TILE,
                **early(context_lens.device),
            )
            launch_carries_into_tiles(selected_indptr[1:])
            return
        _write_flat_decodes[(shape.num_programs,)](
            *arguments,
            num_requests,
            num_tokens_padded,
            topk,
            REQUESTS=shape.requests,
            ENTRIES=shape.entries,
            num_warps=NUM_WARPS,
            **early(context_lens.device),
        )
