"""The position of each token in its request, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_indices, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded"])
def _write_positions(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    position_ids: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    m_token = o_token < num_tokens_padded
    i_request = tl.load(token_to_request + o_token, mask=m_token, other=-1)
    m_live = (i_request >= 0) & (i_request < num_requests)
    start = tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
    stop = tl.load(cu_seqlens_q + 1 + i_request, mask=m_live, other=0)
    # In a map padded with 0, padding rows name request 0.
    m_live = m_live & (start <= o_token) & (o_token < stop)
    position = tl.load(context_lens + i_request, mask=m_live, other=0) + (o_token - start)
    tl.store(position_ids + o_token, tl.where(m_live, position, 0), mask=m_token)


def write_position_ids(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Write the position of each token in its request into position_ids int32 or int64 [T], contiguous.

    token_to_request [T] (-1 means none), cu_seqlens_q [R+1] and context_lens [R], each int32 or int64, in
    tokens.
    Row cu_seqlens_q[b] + i holds context_lens[b] + i. Padding holds 0: rows with a negative request, and rows
    outside [cu_seqlens_q[b], cu_seqlens_q[b+1]) of the request they name (a map padded with 0). Every row is
    written. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape or stride, before anything is written.
    Rule: FastDeploy#7727; the positions of vLLM, SGLang and FlashInfer.

    >>> token_to_request, positions = torch.tensor([0, 0, 2, 2, 2, -1]), torch.empty(6, dtype=torch.int64)
    >>> write_position_ids(token_to_request, torch.tensor([0, 2, 2, 5]), torch.tensor([3, 4, 0]), positions)
    >>> positions.tolist()
    [3, 4, 0, 1, 2, 0]
    """
    check_indices("token_to_request", token_to_request, None)
    device, num_tokens_padded = token_to_request.device, token_to_request.numel()
    check_indices("context_lens", context_lens, None, device)
    num_requests = context_lens.numel()
    check_indices("cu_seqlens_q", cu_seqlens_q, num_requests + 1, device)
    check_tensor("position_ids", position_ids, INDEX_DTYPES, (num_tokens_padded,), device)
    if num_tokens_padded == 0:
        return
    with torch.cuda.device(token_to_request.get_device()):
        _write_positions[(-(-num_tokens_padded // TOKENS_PER_TILE),)](
            token_to_request,
            cu_seqlens_q,
            context_lens,
            position_ids,
            num_requests,
            num_tokens_padded,
            TILE=TOKENS_PER_TILE,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )
