"""Where each request's tokens and keys lie in a flattened step, as Triton kernels."""

from typing import Literal

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_indices, check_int, check_tensor
from cumae.gpu_impl.running_sums import launch_running_sums

KeyScope = Literal["all", "prefill"]

TOKENS_PER_TILE = 512
STARTS_PER_CHUNK = 256


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "token_padding"])
def _map_tokens(
    query_lens: tl.tensor,
    cu_seqlens_q: tl.tensor,
    token_to_request: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    token_padding: tl.tensor,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    i_first = tl.program_id(0) * TILE
    o_token = i_first + tl.arange(0, TILE)
    # Not cu_seqlens_q[num_requests], which a dummy request raises to num_tokens_padded.
    i_last = num_requests - 1
    num_tokens = tl.load(cu_seqlens_q + i_last, mask=i_last >= 0, other=0)
    num_tokens += tl.load(query_lens + i_last, mask=i_last >= 0, other=0).to(tl.int32)
    i_stop = tl.minimum(i_first + TILE, num_tokens)
    i_request = tl.full((TILE,), 0, tl.int32)
    if i_first < i_stop:
        # Requests 1 .. low start before i_first.
        low = 0
        high = i_last
        while low < high:
            middle = (low + high) // 2
            if tl.load(cu_seqlens_q + 1 + middle) < i_first:
                low = middle + 1
            else:
                high = middle
        i_next = low + 1
        num_starts = tl.full((TILE,), 0, tl.int32)
        while tl.load(cu_seqlens_q + i_next, mask=i_next < num_requests, other=i_stop) < i_stop:
            o_request = i_next + tl.arange(0, CHUNK)
            start = tl.load(cu_seqlens_q + o_request, mask=o_request < num_requests, other=i_stop)
            m_start = start < i_stop
            num_starts += tl.histogram(tl.where(m_start, start - i_first, 0), TILE, mask=m_start)
            i_next += CHUNK
        i_request = low + tl.cumsum(num_starts)
    i_request = tl.where(o_token < num_tokens, i_request, token_padding)
    tl.store(token_to_request + o_token, i_request, mask=o_token < num_tokens_padded)


def write_sequence_layout(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    key_scope: KeyScope,
    token_padding: int,
    dummy_request: bool,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    token_to_request: torch.Tensor,
    max_seqlen_q: torch.Tensor,
    max_seqlen_k: torch.Tensor,
) -> None:
    """Write where each request's tokens and keys lie in the flattened step.

    context_lens, query_lens [R] int32 or int64, in tokens: cached, and computed in this step; is_prefill [R]
    bool. R and T, the length of token_to_request, are with padding.
    On entry the query_lens sum to n <= T and every sum fits int32; padded requests have both lengths 0.
    Outputs, all int32 and contiguous. cu_seqlens_q [R+1]: running sum of query_len. cu_seqlens_k [R+1]:
    running sum of seq_len // compress_ratio, over all requests or, with key_scope "prefill", prefill requests
    only.
    token_to_request [T]: token_padding (-1, meaning none, or 0) from row n on. max_seqlen_q, max_seqlen_k
    [1]: longest query_len and seq_len in tokens, of any phase, over requests with query_len > 0; 0 if none.
    dummy_request: cu_seqlens_q[R] is T, so a last padded request takes the padding rows; the token map stays.
    No requests: both cu_seqlens are [0]. Every element is written. Does not synchronise or allocate, so a
    CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: FastDeploy#7727, vLLM query_start_loc; the dummy request is sglang#21452.

    >>> context_lens, query_lens = torch.tensor([3, 4, 0]), torch.tensor([2, 0, 3])
    >>> is_prefill = torch.ones(3, dtype=torch.bool)
    >>> layout = [torch.empty(size, dtype=torch.int32) for size in (4, 4, 6, 1, 1)]
    >>> write_sequence_layout(context_lens, query_lens, is_prefill, 1, "all", -1, False, *layout)
    >>> cu_seqlens_q, cu_seqlens_k, token_to_request, *longest = (tensor.tolist() for tensor in layout)
    >>> cu_seqlens_q, cu_seqlens_k
    ([0, 2, 2, 5], [0, 5, 9, 12])
    >>> token_to_request, longest
    ([0, 0, 2, 2, 2, -1], [[3], [5]])
    """
    check_indices("context_lens", context_lens, None)
    device, num_requests = context_lens.device, context_lens.numel()
    check_indices("query_lens", query_lens, num_requests, device)
    check_tensor("is_prefill", is_prefill, (torch.bool,), (num_requests,), device)
    check_int("compress_ratio", compress_ratio, 1)
    check_choice("key_scope", key_scope, ("all", "prefill"))
    check_choice("token_padding", token_padding, (-1, 0))
    check_choice("dummy_request", dummy_request, (False, True))
    check_tensor("cu_seqlens_q", cu_seqlens_q, (torch.int32,), (num_requests + 1,), device)
    check_tensor("cu_seqlens_k", cu_seqlens_k, (torch.int32,), (num_requests + 1,), device)
    check_tensor("token_to_request", token_to_request, (torch.int32,), (None,), device)
    check_tensor("max_seqlen_q", max_seqlen_q, (torch.int32,), (1,), device)
    check_tensor("max_seqlen_k", max_seqlen_k, (torch.int32,), (1,), device)
    num_tokens_padded = token_to_request.numel()
    with torch.cuda.device(context_lens.get_device()):
        launch_running_sums(
            context_lens,
            query_lens,
            is_prefill,
            compress_ratio,
            key_scope == "prefill",
            num_tokens_padded if dummy_request else None,
            cu_seqlens_q,
            cu_seqlens_k,
            max_seqlen_q,
            max_seqlen_k,
        )
        if num_tokens_padded > 0:
            _map_tokens[(-(-num_tokens_padded // TOKENS_PER_TILE),)](
                query_lens,
                cu_seqlens_q,
                token_to_request,
                num_requests,
                num_tokens_padded,
                token_padding,
                TILE=TOKENS_PER_TILE,
                CHUNK=STARTS_PER_CHUNK,
            )
