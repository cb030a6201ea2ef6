"""The range of key rows each prefill token attends to, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_shard, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

# A thread has two tokens of a tile: each of its loads waits for the one before.
TOKENS_PER_TILE = 512
NUM_WARPS = 8


@triton.jit
def _num_owned(
    num_keys: tl.tensor, world: tl.tensor, rank: tl.tensor, interleave: tl.tensor, IS_SHARDED: tl.constexpr
) -> tl.tensor:
    """Return how many of the first keys of a request the rank owns, without ranks all of them."""
    if IS_SHARDED:
        num_runs = num_keys // interleave
        tail = (num_runs % world - rank) * interleave + num_keys % interleave
        num_keys = num_runs // world * interleave + tl.minimum(tl.maximum(tail, 0), interleave)
    return num_keys


@triton.jit
def find_windows(
    bound: tl.tensor,
    first_key: tl.tensor,
    m_token: tl.tensor,
    compress_ratio: tl.tensor,
    window: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    HAS_WINDOW: tl.constexpr,
    IS_SHARDED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the range of key rows of each token, (0, 0) outside m_token.

    bound: how many keys of its request a token sees, its own included; first_key: the request's first row.
    """
    bound = tl.where(m_token, bound, 0)
    stop = first_key + _num_owned(bound // compress_ratio, world, rank, interleave, IS_SHARDED)
    if HAS_WINDOW:
        first_key += _num_owned(tl.maximum(bound - window, 0), world, rank, interleave, IS_SHARDED)
    return tl.where(m_token, first_key, 0), tl.where(m_token, stop, 0)


@triton.jit(do_not_specialize=["num_requests", "num_tokens_padded", "window", "rank"])
def _write_windows(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    context_lens: tl.tensor,
    is_prefill: tl.tensor,
    ks: tl.tensor,
    ke: tl.tensor,
    ks_stride: tl.tensor,
    ke_stride: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    compress_ratio: tl.tensor,
    window: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    HAS_WINDOW: tl.constexpr,
    IS_SHARDED: tl.constexpr,
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
    m_live = m_live & (tl.load(is_prefill + i_request, mask=m_live, other=0) != 0)
    bound = tl.load(context_lens + i_request, mask=m_live, other=0) + (o_token - start) + 1
    first = tl.load(cu_seqlens_k + i_request, mask=m_live, other=0)
    first, stop = find_windows(
        bound, first, m_live, compress_ratio, window, world, rank, interleave, HAS_WINDOW, IS_SHARDED
    )
    row = o_token.to(tl.int64)
    tl.store(ks + row * ks_stride, first.to(tl.int32), mask=m_token)
    tl.store(ke + row * ke_stride, stop.to(tl.int32), mask=m_token)


def write_causal_windows(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    window: int,
    world: int,
    rank: int,
    interleave: int,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """Write the range of key rows [ks, ke) each token attends to into ks and ke, int32 [T] of any stride.

    token_to_request [T] (-1 means none), cu_seqlens_q, cu_seqlens_k [R+1], context_lens [R], each int32 or
    int64; is_prefill [R] bool. cu_seqlens_k: where the rows of each request begin in the key buffer.
    For token i of prefill request b, with bound = context_lens[b] + i + 1: ks = cu_seqlens_k[b],
    ke = ks + bound // compress_ratio; a window W > 0 (0 means none) adds max(0, bound - W) to ks. With world
    > 1, both bounds count only rows that the rank owns: row j of a request iff
    (j // interleave) % world == rank. A window and a compress_ratio > 1 exclude each other.
    Tokens of decodes and padding hold (0, 0). All T rows are written. Does not synchronise or allocate, so a
    CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: FastDeploy#7598; the compressed rows of vllm#51252, the window of vllm#3385.

    >>> token_to_request, cu_seqlens_q = torch.tensor([0, 0, 2, 2, 2, -1]), torch.tensor([0, 2, 2, 5])
    >>> cu_seqlens_k, context_lens = torch.tensor([0, 5, 9, 12]), torch.tensor([3, 4, 0])
    >>> is_prefill, (ks, ke) = torch.ones(3, dtype=torch.bool), torch.empty((2, 6), dtype=torch.int32)
    >>> write_causal_windows(
    ...     token_to_request, cu_seqlens_q, cu_seqlens_k, context_lens, is_prefill, 1, 0, 1, 0, 1, ks, ke
    ... )
    >>> ks.tolist(), ke.tolist()
    ([0, 0, 9, 9, 9, 0], [4, 5, 10, 11, 12, 0])
    """
    _check_inputs(
        token_to_request,
        cu_seqlens_q,
        cu_seqlens_k,
        context_lens,
        is_prefill,
        compress_ratio,
        window,
        world,
        rank,
        interleave,
    )
    num_tokens_padded = token_to_request.numel()
    check_windows(ks, ke, num_tokens_padded, token_to_request.device)
    if num_tokens_padded == 0:
        return
    with torch.cuda.device(token_to_request.get_device()):
        _write_windows[(-(-num_tokens_padded // TOKENS_PER_TILE),)](
            token_to_request,
            cu_seqlens_q,
            cu_seqlens_k,
            context_lens,
            is_prefill,
            ks,
            ke,
            ks.stride(0),
            ke.stride(0),
            context_lens.numel(),
            num_tokens_padded,
            compress_ratio,
            window,
            world,
            rank,
            interleave,
            HAS_WINDOW=window > 0,
            IS_SHARDED=world > 1,
            TILE=TOKENS_PER_TILE,
            num_warps=NUM_WARPS,
            **early(token_to_request.device),
        )


def write_packed_causal_windows(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    window: int,
    world: int,
    rank: int,
    interleave: int,
    windows: torch.Tensor,
) -> None:
    """Write the key range of each token into windows int32 [2T], contiguous: ks at 2t, ke at 2t+1.

    Inputs, meaning, rule and errors as in `write_causal_windows`. Does not synchronise or allocate, so a CUDA
    graph can capture it.
    """
    check_indices("token_to_request", token_to_request, None)
    check_tensor("windows", windows, (torch.int32,), (2 * token_to_request.numel(),), token_to_request.device)
    write_causal_windows(
        token_to_request,
        cu_seqlens_q,
        cu_seqlens_k,
        context_lens,
        is_prefill,
        compress_ratio,
        window,
        world,
        rank,
        interleave,
        windows[0::2],
        windows[1::2],
    )


def check_windows(ks: torch.Tensor, ke: torch.Tensor, num_tokens: int, device: torch.device) -> None:
    """Raise ValueError unless both are int32 tensors [num_tokens] with a stride of at least 1."""
    for name, output in (("ks", ks), ("ke", ke)):
        check_tensor(name, output, (torch.int32,), (num_tokens,), device, contiguous=False)
        if num_tokens > 1 and output.stride(0) < 1:
            raise ValueError(f"{name}.stride() = {output.stride()}, must be >= 1")


def _check_inputs(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    window: int,
    world: int,
    rank: int,
    interleave: int,
) -> None:
    check_indices("token_to_request", token_to_request, None)
    device = token_to_request.device
    check_indices("context_lens", context_lens, None, device)
    num_requests = context_lens.numel()
    check_indices("cu_seqlens_q", cu_seqlens_q, num_requests + 1, device)
    check_indices("cu_seqlens_k", cu_seqlens_k, num_requests + 1, device)
    check_tensor("is_prefill", is_prefill, (torch.bool,), (num_requests,), device)
    check_int("compress_ratio", compress_ratio, 1)
    check_int("window", window, 0)
    check_shard(world, rank, interleave)
    if compress_ratio > 1 and window > 0:
        raise ValueError(f"window = {window}, must be 0 when compress_ratio > 1")
