"""How many positions of each request a context-parallel rank holds, as a Triton kernel.

Rule: vLLM `get_dcp_local_seq_lens` and `prepare_dcp_local_seq_lens`; SGLang `get_dcp_lens`, whose runs are of
one position.
"""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_shard, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

ENTRIES_PER_TILE = 128


@triton.jit(do_not_specialize=["num_requests", "num_rows", "world", "rank", "interleave"])
def _write_lens(
    seq_lens: tl.tensor,
    local_lens: tl.tensor,
    rank_lens: tl.tensor,
    num_requests: tl.tensor,
    num_rows: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    TILE: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # Divisions of 64 bits are slow, so there is one in a program: what follows it has 32.
    i_first = tl.program_id(0).to(tl.int64) * TILE
    i_first_request = i_first // world
    o_rank = (i_first - i_first_request * world).to(tl.uint32) + tl.arange(0, TILE).to(tl.uint32)
    o_request = o_rank // world.to(tl.uint32)
    i_rank = (o_rank - o_request * world.to(tl.uint32)).to(tl.int32)
    i_request = i_first_request + o_request.to(tl.int64)
    m_entry = i_request < num_rows
    seq_len = tl.load(seq_lens + i_request, mask=i_request < num_requests, other=0)
    # Division rounds towards zero here, so a negative length would leave a negative count.
    seq_len = tl.maximum(seq_len, 0).to(tl.int32)
    num_rounds = seq_len // (world * interleave)
    # Positions left from where i_rank's run of the unfinished round begins; negative if it is not reached.
    remaining = seq_len - num_rounds * (world * interleave) - i_rank * interleave
    local_len = num_rounds * interleave + tl.minimum(tl.maximum(remaining, 0), interleave)
    o_entry = i_first + tl.arange(0, TILE)
    tl.store(rank_lens + o_entry, local_len, mask=m_entry)
    tl.store(local_lens + i_request, local_len, mask=m_entry & (i_rank == rank))


def write_local_lens(
    seq_lens: torch.Tensor,
    num_requests: int,
    world: int,
    rank: int,
    interleave: int,
    local_lens: torch.Tensor,
    rank_lens: torch.Tensor,
) -> None:
    """Write how many positions below each seq_len one context-parallel rank holds, and every rank.

    seq_lens int32 or int64 [R_padded], in tokens, of which the first num_requests are live and below 2**31; a
    negative one counts as 0. Runs of `interleave` positions go round the `world` ranks: a rank holds position
    p iff (p // interleave) % world is its number.
    local_lens int32 [R_padded] holds the count of `rank`, rank_lens int32 [R_padded, world] that of every
    rank, in tokens: rank_lens[:, rank] equals local_lens, and a live row of rank_lens sums to its seq_len.
    Both hold 0 from row num_requests on, where seq_lens is not read. Every tensor is contiguous.
    One launch. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM get_dcp_local_seq_lens, prepare_dcp_local_seq_lens; SGLang get_dcp_lens.

    >>> seq_lens = torch.tensor([11, 0, 5, 99])
    >>> local_lens, rank_lens = torch.empty(4, dtype=torch.int32), torch.empty(4, 4, dtype=torch.int32)
    >>> write_local_lens(seq_lens, 3, 4, 1, 2, local_lens, rank_lens)
    >>> local_lens.tolist()
    [3, 0, 2, 0]
    >>> rank_lens.tolist()
    [[4, 3, 2, 2], [0, 0, 0, 0], [2, 2, 1, 0], [0, 0, 0, 0]]
    """
    check_indices("seq_lens", seq_lens, None)
    device, num_rows = seq_lens.device, seq_lens.numel()
    check_int("num_requests", num_requests, 0, num_rows)
    check_shard(world, rank, interleave)
    check_tensor("local_lens", local_lens, (torch.int32,), (num_rows,), device)
    check_tensor("rank_lens", rank_lens, (torch.int32,), (num_rows, world), device)
    if num_rows == 0:
        return
    with torch.cuda.device(seq_lens.get_device()):
        _write_lens[(-(-num_rows * world // ENTRIES_PER_TILE),)](
            seq_lens,
            local_lens,
            rank_lens,
            num_requests,
            num_rows,
            world,
            rank,
            interleave,
            TILE=ENTRIES_PER_TILE,
            **early(seq_lens.device),
        )
