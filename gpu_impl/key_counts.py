"""Key counts of tokens and their running sums, without a limit on tokens or requests."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.tile_ends import launch_carries

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit
def count_keys(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    num_requests: tl.tensor,
    o_token: tl.tensor,
    m_token: tl.tensor,
    topk: tl.tensor,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the request and the kv_len of each token, int32; (-1, 0) for padding and outside m_token."""
    i_request = tl.load(token_to_request + o_token, mask=m_token, other=-1)
    m_live = (i_request >= 0) & (i_request < num_requests)
    start = tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
    stop = tl.load(cu_seqlens_q + 1 + i_request, mask=m_live, other=0)
    # In a map padded with 0, padding rows name request 0.
    m_live = m_live & (start <= o_token) & (o_token < stop)
    context_len = tl.load(context_lens + i_request, mask=m_live, other=0).to(tl.int64)
    kv_len = tl.minimum(context_len + (o_token - start) + 1, topk)
    return tl.where(m_live, i_request, -1).to(tl.int32), tl.where(m_live, kv_len, 0).to(tl.int32)


@triton.jit
def count_splits(kv_len: tl.tensor, split_size: tl.tensor) -> tl.tensor:
    """Return ceil(kv_len / split_size), int32."""
    return tl.where(kv_len > 0, (kv_len - 1) // split_size + 1, 0)


@triton.jit(do_not_specialize=["num_requests", "num_tokens", "topk", "split_size"])
def _scan_counts(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    sums: tl.tensor,
    num_requests: tl.tensor,
    num_tokens: tl.tensor,
    topk: tl.tensor,
    split_size: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_token = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    m_token = o_token < num_tokens
    _, kv_len = count_keys(token_to_request, cu_seqlens_q, context_lens, num_requests, o_token, m_token, topk)
    tl.store(sums + o_token, tl.cumsum(count_splits(kv_len, split_size)), mask=m_token)


@triton.jit(do_not_specialize=["num_tokens"])
def _carry_into_scans(
    sums: tl.tensor, num_tokens: tl.tensor, TILE: tl.constexpr, BEGINS_EARLY: tl.constexpr
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # The first tile adds nothing.
    i_first = (tl.program_id(0).to(tl.int64) + 1) * TILE
    o_token = i_first + tl.arange(0, TILE)
    # The tile's last entry is already global, and the program of the next tile reads it.
    m_inner = o_token + 1 < tl.minimum(i_first + TILE, num_tokens)
    sum_ = tl.load(sums + o_token, mask=m_inner, other=0) + tl.load(sums + i_first - 1)
    tl.store(sums + o_token, sum_, mask=m_inner)


def launch_tile_sums(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    topk: int,
    split_size: int,
    sums: torch.Tensor,
) -> None:
    """Write running sums of ceil(kv_len / split_size) into sums int32 [T], T > 0; checks nothing.

    The last entry of each tile of TOKENS_PER_TILE tokens counts from token 0, those before it from the first
    token of their tile.
    """
    num_tokens = token_to_request.numel()
    num_tiles = -(-num_tokens // TOKENS_PER_TILE)
    _scan_counts[(num_tiles,)](
        token_to_request,
        cu_seqlens_q,
        context_lens,
        sums,
        context_lens.numel(),
        num_tokens,
        topk,
        split_size,
        TILE=TOKENS_PER_TILE,
        num_warps=NUM_WARPS,
        **early(token_to_request.device),
    )
    if num_tiles > 1:
        launch_carries(sums, None, num_tokens, TOKENS_PER_TILE)


def launch_running_counts(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    topk: int,
    sums: torch.Tensor,
) -> None:
    """Write the running sum of kv_len after each token into sums int32 [T], T > 0."""
    launch_tile_sums(token_to_request, cu_seqlens_q, context_lens, topk, 1, sums)
    _launch_carries_into_scans(sums)


def launch_carries_into_tiles(sums: torch.Tensor) -> None:
    """Turn sums int32 [T], each from the first token of its tile of TOKENS_PER_TILE, into running sums."""
    if sums.numel() > TOKENS_PER_TILE:
        launch_carries(sums, None, sums.numel(), TOKENS_PER_TILE)
        _launch_carries_into_scans(sums)


def _launch_carries_into_scans(sums: torch.Tensor) -> None:
    num_tiles = -(-sums.numel() // TOKENS_PER_TILE)
    if num_tiles > 1:
        _carry_into_scans[(num_tiles - 1,)](
            sums, sums.numel(), TILE=TOKENS_PER_TILE, num_warps=NUM_WARPS, **early(sums.device)
        )


def check_tokens(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    device: torch.device | None,
) -> None:
    """Raise ValueError unless the three are int32 or int64 tensors of one step on this device (None: any)."""
    check_indices("token_to_request", token_to_request, None, device)
    check_indices("context_lens", context_lens, None, token_to_request.device)
    check_indices("cu_seqlens_q", cu_seqlens_q, context_lens.numel() + 1, token_to_request.device)
