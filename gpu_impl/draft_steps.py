"""The rows at which each request samples when it verifies drafted tokens, as a Triton kernel."""

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

TILES_PER_PROGRAM = 128  # whose bonus index at the end is written last


@triton.jit
def _count_rows(
    cu_seqlens_q: tl.tensor, num_drafts: tl.tensor, o_request: tl.tensor, num_requests: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Return the drafts and the sampled rows of each request, int32; none past the last live one."""
    m_request = o_request < num_requests
    row_stop = tl.load(cu_seqlens_q + 1 + o_request, mask=m_request, other=0)
    # A request without rows samples nothing.
    m_sample = row_stop > tl.load(cu_seqlens_q + o_request, mask=m_request, other=0)
    num_own = tl.load(num_drafts + o_request, mask=m_sample, other=0).to(tl.int32)
    return num_own, tl.where(m_sample, num_own + 1, 0)


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded"])
def _sum_tiles(
    cu_seqlens_q: tl.tensor,
    num_drafts: tl.tensor,
    bonus_logits_indices: tl.tensor,
    cu_num_draft_tokens: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    num_own, num_rows = _count_rows(cu_seqlens_q, num_drafts, o_request, num_requests)
    i_end = end_of_tile(i_tile, num_requests_padded, REQUESTS)
    # Until the last launch, bonus indices at the ends of tiles are sums of rows.
    tl.store(bonus_logits_indices + i_end, tl.sum(num_rows))
    tl.store(cu_num_draft_tokens + i_end, tl.sum(num_own))


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded"])
def _write_bonus_at_ends(
    cu_seqlens_q: tl.tensor,
    bonus_logits_indices: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    REQUESTS: tl.constexpr,
    TILES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_tile = tl.program_id(0) * TILES + tl.arange(0, TILES)
    m_tile = o_tile < (num_requests_padded + REQUESTS - 1) // REQUESTS
    o_end = end_of_tile(o_tile, num_requests_padded, REQUESTS)
    m_live = m_tile & (o_end < num_requests)
    row_stop = tl.load(cu_seqlens_q + 1 + o_end, mask=m_live, other=0)
    m_sample = row_stop > tl.load(cu_seqlens_q + o_end, mask=m_live, other=0)
    stop = tl.load(bonus_logits_indices + o_end, mask=m_tile, other=0)
    tl.store(bonus_logits_indices + o_end, tl.where(m_sample, stop - 1, 0), mask=m_tile)


@triton.jit
def _fill_tail(
    output: tl.tensor, i_stop: tl.tensor, length: tl.tensor, num_programs: tl.tensor, ENTRIES: tl.constexpr
) -> None:
    """Write 0 into this program's tiles of output[i_stop : length]."""
    num_tiles = (length + ENTRIES - 1) // ENTRIES
    for i_tile in range(next_own_tile(i_stop, num_programs, ENTRIES), num_tiles, num_programs):
        o_entry = i_tile * ENTRIES + tl.arange(0, ENTRIES)
        tl.store(output + o_entry, 0, mask=(o_entry >= i_stop) & (o_entry < length))


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded", "num_logits", "num_targets"])
def _write_draft_steps(
    cu_seqlens_q: tl.tensor,
    num_drafts: tl.tensor,
    logits_indices: tl.tensor,
    target_logits_indices: tl.tensor,
    bonus_logits_indices: tl.tensor,
    cu_num_draft_tokens: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    num_logits: tl.tensor,
    num_targets: tl.tensor,
    HAS_ENDS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    num_sampled = tl.full((), 0, tl.int32)
    num_all_drafts = tl.full((), 0, tl.int32)
    if HAS_ENDS:
        # The last programs write what a tile of requests each has, except at its end, where sums are.
        num_programs -= (num_requests_padded + REQUESTS - 1) // REQUESTS
        i_request_tile = i_program - num_programs
        if i_request_tile >= 0:
            o_request = first_of_tile(i_request_tile, REQUESTS) + tl.arange(0, REQUESTS)
            num_own, num_rows = _count_rows(cu_seqlens_q, num_drafts, o_request, num_requests)
            stop = start_of_tile(bonus_logits_indices, i_request_tile, REQUESTS) + tl.cumsum(num_rows)
            draft_stop = start_of_tile(cu_num_draft_tokens, i_request_tile, REQUESTS) + tl.cumsum(num_own)
            m_inner = o_request < end_of_tile(i_request_tile, num_requests_padded, REQUESTS)
            tl.store(bonus_logits_indices + o_request, tl.where(num_rows > 0, stop - 1, 0), mask=m_inner)
            tl.store(cu_num_draft_tokens + o_request, draft_stop, mask=m_inner)
            return
        num_sampled = tl.load(bonus_logits_indices + num_requests_padded - 1)
        num_all_drafts = tl.load(cu_num_draft_tokens + num_requests_padded - 1)
    i_entry, i_end = own_entries(num_sampled, num_programs, ENTRIES, HAS_ENDS)
    while i_entry < i_end:
        i_request = tl.full((), 0, tl.int32)
        i_start = tl.full((), 0, tl.int32)
        i_draft_start = tl.full((), 0, tl.int32)
        if HAS_ENDS:
            i_request_tile = find_tile(bonus_logits_indices, num_requests_padded, i_entry, REQUESTS)
            i_request = first_of_tile(i_request_tile, REQUESTS)
            i_start = start_of_tile(bonus_logits_indices, i_request_tile, REQUESTS)
            i_draft_start = start_of_tile(cu_num_draft_tokens, i_request_tile, REQUESTS)
        o_request = i_request + tl.arange(0, REQUESTS)
        num_own, num_rows = _count_rows(cu_seqlens_q, num_drafts, o_request, num_requests)
        draft_stop = i_draft_start + tl.cumsum(num_own)
        stop = i_start + tl.cumsum(num_rows)
        i_stop = tl.max(stop)
        if not HAS_ENDS:
            num_sampled = i_stop
            num_all_drafts = tl.max(draft_stop)
            if i_program == 0:
                m_padded = o_request < num_requests_padded
                tl.store(bonus_logits_indices + o_request, tl.where(num_rows > 0, stop - 1, 0), mask=m_padded)
                tl.store(cu_num_draft_tokens + o_request, draft_stop, mask=m_padded)
        first_tile, stop_tile, step = own_tiles(i_entry, i_stop, i_end, num_programs, ENTRIES, HAS_ENDS)
        for i_tile in range(first_tile, stop_tile, step):
            o_logit = i_tile * ENTRIES + tl.arange(0, ENTRIES)
            m_logit = (o_logit >= i_start) & (o_logit < i_stop)
            owner = find_owners(stop - num_rows, i_tile * ENTRIES, ENTRIES)
            to_last = tl.gather(stop, owner, 0) - 1 - o_logit
            last_row = tl.load(cu_seqlens_q + 1 + i_request + owner, mask=m_logit, other=0) - 1
            tl.store(
                logits_indices + o_logit,
                (last_row - to_last).to(tl.int32),
                mask=m_logit & (o_logit < num_logits),
            )
            # to_last drafts of the request are left, this row's included; the last row has none.
            o_target = tl.gather(draft_stop, owner, 0) - to_last
            m_target = m_logit & (to_last > 0) & (o_target < num_targets)
            tl.store(target_logits_indices + o_target, o_logit.to(tl.int32), mask=m_target)
        i_entry = tl.maximum(i_stop, 1)
    _fill_tail(logits_indices, num_sampled, num_logits, num_programs, ENTRIES)
    _fill_tail(target_logits_indices, num_all_drafts, num_targets, num_programs, ENTRIES)


def write_draft_steps(
    cu_seqlens_q: torch.Tensor,
    num_drafts: torch.Tensor,
    num_requests: int,
    logits_indices: torch.Tensor,
    target_logits_indices: torch.Tensor,
    bonus_logits_indices: torch.Tensor,
    cu_num_draft_tokens: torch.Tensor,
) -> None:
    """Write the rows at which each request samples when it verifies drafted tokens, and their roles.

    cu_seqlens_q [R+1], num_drafts [R], each int32 or int64, in tokens. The first num_requests of the R
    requests are live; nothing is read of the others. Live request b has 0 <= num_drafts[b] < query_len, or no
    rows: then it samples nothing, and its num_drafts counts as 0. It samples at its last num_drafts[b] + 1
    rows, of which the last gives the bonus token.
    All outputs are int32 and contiguous. logits_indices [N]: those rows of the step, request by request.
    target_logits_indices [D]: for each draft, request by request, its place in logits_indices.
    bonus_logits_indices [R]: the place of each request's last row there. cu_num_draft_tokens [R]: the drafts
    of requests 0 .. b, without a leading 0.
    Past the last live entry both lists hold 0; requests that sample nothing have bonus index 0, and padded
    requests repeat the sum. N must not be smaller than the number of sampled rows, nor D than that of drafts;
    entries past them are dropped. Every element is written.
    One launch, or four for more than 4,096 requests. Does not synchronise or allocate, so a CUDA graph can
    capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: vLLM _calc_spec_decode_metadata.

    >>> steps = [torch.empty(size, dtype=torch.int32) for size in (6, 4, 4, 4)]
    >>> cu_seqlens_q, num_drafts = torch.tensor([0, 4, 4, 9, 9]), torch.tensor([2, 0, 1, 7])
    >>> write_draft_steps(cu_seqlens_q, num_drafts, 3, *steps)
    >>> logits_indices, target_logits_indices, bonus_logits_indices, drafts = (s.tolist() for s in steps)
    >>> logits_indices, target_logits_indices
    ([1, 2, 3, 7, 8, 0], [0, 1, 3, 0])
    >>> bonus_logits_indices, drafts
    ([2, 0, 4, 0], [2, 2, 3, 3])
    """
    check_indices("num_drafts", num_drafts, None)
    device, num_requests_padded = num_drafts.device, num_drafts.numel()
    check_indices("cu_seqlens_q", cu_seqlens_q, num_requests_padded + 1, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_tensor("logits_indices", logits_indices, (torch.int32,), (None,), device)
    check_tensor("target_logits_indices", target_logits_indices, (torch.int32,), (None,), device)
    check_tensor("bonus_logits_indices", bonus_logits_indices, (torch.int32,), (num_requests_padded,), device)
    check_tensor("cu_num_draft_tokens", cu_num_draft_tokens, (torch.int32,), (num_requests_padded,), device)
    num_logits, num_targets = logits_indices.numel(), target_logits_indices.numel()
    shape = shape_of_list(max(num_logits, num_targets), num_requests_padded)
    with torch.cuda.device(num_drafts.get_device()):
        if shape.has_ends:
            _sum_tiles[(shape.num_tiles,)](
                cu_seqlens_q,
                num_drafts,
                bonus_logits_indices,
                cu_num_draft_tokens,
                num_requests,
                num_requests_padded,
                REQUESTS=shape.requests,
                num_warps=NUM_WARPS,
                **early(num_drafts.device),
            )
            launch_carries(bonus_logits_indices, cu_num_draft_tokens, num_requests_padded, shape.requests)
        _write_draft_steps[(shape.num_programs + shape.has_ends * shape.num_tiles,)](
            cu_seqlens_q,
            num_drafts,
            logits_indices,
            target_logits_indices,
            bonus_logits_indices,
            cu_num_draft_tokens,
            num_requests,
            num_requests_padded,
            num_logits,
            num_targets,
            HAS_ENDS=shape.has_ends,
            REQUESTS=shape.requests,
            ENTRIES=shape.entries,
            num_warps=NUM_WARPS,
            **early(num_drafts.device),
        )
        if shape.has_ends:
            _write_bonus_at_ends[(-(-shape.num_tiles // TILES_PER_PROGRAM),)](
                cu_seqlens_q,
                bonus_logits_indices,
                num_requests,
                num_requests_padded,
                REQUESTS=shape.requests,
                TILES=TILES_PER_PROGRAM,
                **early(num_drafts.device),
            )
