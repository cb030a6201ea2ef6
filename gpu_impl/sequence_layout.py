"""Where each request's tokens and keys lie in a flattened step, as Triton kernels."""

from typing import Literal

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.request_scan import (
    load_lens,
    owners_in_memory,
    owners_in_scan,
    scan_lens,
    shape_of_scan,
    store_sums,
)
from cumae.gpu_impl.running_sums import launch_running_sums

KeyScope = Literal["all", "prefill"]


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "token_padding", "last_q"])
def _write_layout(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    is_prefill: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    token_to_request: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    token_padding: tl.tensor,
    last_q: tl.tensor,
    compress_ratio: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    HAS_DUMMY: tl.constexpr,
    REQUESTS: tl.constexpr,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    context_len, query_len, num_keys = load_lens(
        context_lens, query_lens, is_prefill, num_requests, compress_ratio, IS_PREFILL_SCOPE, REQUESTS
    )
    stop_q, stop_k = scan_lens(query_len, num_keys)
    # The first program writes the sums, the others a tile of tokens each.
    if tl.program_id(0) == 0:
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
        return
    i_first = (tl.program_id(0) - 1) * TILE
    o_token = i_first + tl.arange(0, TILE)
    i_request = owners_in_scan(query_len, stop_q, num_requests, i_first, TILE)
    i_request = tl.where(i_request < num_requests, i_request, token_padding)
    tl.store(token_to_request + o_token, i_request, mask=o_token < num_tokens_padded)


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "token_padding"])
def _map_tokens(
    query_lens: tl.tensor,
    cu_seqlens_q: tl.tensor,
    token_to_request: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    token_padding: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_first = tl.program_id(0) * TILE
    o_token = i_first + tl.arange(0, TILE)
    i_request, num_tokens = owners_in_memory(query_lens, cu_seqlens_q, num_requests, i_first, TILE)
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
    check_layout(
        context_lens,
        query_lens,
        is_prefill,
        compress_ratio,
        key_scope,
        token_padding,
        dummy_request,
        cu_seqlens_q,
        cu_seqlens_k,
        token_to_request,
        max_seqlen_q,
        max_seqlen_k,
    )
    num_requests = context_lens.numel()
    num_tokens_padded = token_to_request.numel()
    requests, tile, num_warps = shape_of_scan(num_requests, num_tokens_padded)
    num_tiles = -(-num_tokens_padded // tile)
    with torch.cuda.device(context_lens.get_device()):
        if requests > 0:
            _write_layout[(1 + num_tiles,)](
                context_lens,
                query_lens,
                is_prefill,
                cu_seqlens_q,
                cu_seqlens_k,
                token_to_request,
                max_seqlen_q,
                max_seqlen_k,
                num_requests,
                num_tokens_padded,
                token_padding,
                num_tokens_padded,
                compress_ratio,
                IS_PREFILL_SCOPE=key_scope == "prefill",
                HAS_DUMMY=dummy_request,
                REQUESTS=requests,
                TILE=tile,
                num_warps=num_warps,
                **early(context_lens.device),
            )
            return
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
        if num_tiles > 0:
            _map_tokens[(num_tiles,)](
                query_lens,
                cu_seqlens_q,
                token_to_request,
                num_requests,
                num_tokens_padded,
                token_padding,
                TILE=tile,
                num_warps=num_warps,
                **early(context_lens.device),
            )


def check_layout(
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
    """Raise ValueError unless the arguments are those of `write_sequence_layout`."""
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
