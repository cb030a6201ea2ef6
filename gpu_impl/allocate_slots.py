"""The cache slots of a step's new tokens, taken from a list of free pages, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_indices, check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.owners import (
    NUM_WARPS,
    find_owners,
    own_entries,
    own_tiles,
    shape_of_list,
)
from cumae.gpu_impl.tile_ends import find_tile, first_of_tile, launch_carries, start_of_tile


@triton.jit
def _num_pages_of(length: tl.tensor, page_size: tl.tensor) -> tl.tensor:
    """Return ceil(length / page_size)."""
    return tl.where(length > 0, (length - 1) // page_size + 1, 0)


@triton.jit
def _count_taken(
    prefix_lens: tl.tensor,
    seq_lens: tl.tensor,
    o_request: tl.tensor,
    num_requests: tl.tensor,
    page_size: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return prefix_len, seq_len and the pages that each request takes, int32; 0 past the last live one."""
    m_request = o_request < num_requests
    prefix_len = tl.load(prefix_lens + o_request, mask=m_request, other=0).to(tl.int32)
    seq_len = tl.load(seq_lens + o_request, mask=m_request, other=0).to(tl.int32)
    return prefix_len, seq_len, _num_pages_of(seq_len, page_size) - _num_pages_of(prefix_len, page_size)


@triton.jit(do_not_specialize=["num_requests", "num_tiles"])
def _sum_tiles(
    prefix_lens: tl.tensor,
    seq_lens: tl.tensor,
    sums: tl.tensor,
    num_requests: tl.tensor,
    num_tiles: tl.tensor,
    page_size: tl.tensor,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    o_request = i_tile * REQUESTS + tl.arange(0, REQUESTS)
    prefix_len, seq_len, num_taken = _count_taken(prefix_lens, seq_lens, o_request, num_requests, page_size)
    tl.store(sums + i_tile, tl.sum(seq_len - prefix_len))
    tl.store(sums + num_tiles + i_tile, tl.sum(num_taken))


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded"])
def _write_num_pages(
    prefix_lens: tl.tensor,
    seq_lens: tl.tensor,
    num_pages: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    page_size: tl.tensor,
    REQUESTS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_request = tl.program_id(0) * REQUESTS + tl.arange(0, REQUESTS)
    _, _, num_taken = _count_taken(prefix_lens, seq_lens, o_request, num_requests, page_size)
    tl.store(num_pages + o_request, num_taken, mask=o_request < num_requests_padded)


@triton.jit(do_not_specialize=["num_requests", "num_requests_padded", "num_free", "num_slots"])
def _write_allocated_slots(
    last_loc: tl.tensor,
    prefix_lens: tl.tensor,
    seq_lens: tl.tensor,
    free_pages: tl.tensor,
    out_cache_loc: tl.tensor,
    num_pages: tl.tensor,
    num_requests: tl.tensor,
    num_requests_padded: tl.tensor,
    num_free: tl.tensor,
    num_slots: tl.tensor,
    page_size: tl.tensor,
    HAS_ENDS: tl.constexpr,
    REQUESTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    num_programs = tl.num_programs(0)
    num_tiles = (num_requests_padded + REQUESTS - 1) // REQUESTS
    page_sums = num_pages + num_tiles
    total = num_slots
    if HAS_ENDS:
        total = tl.minimum(tl.load(num_pages + num_tiles - 1), num_slots)
    i_entry, i_end = own_entries(total, num_programs, ENTRIES, HAS_ENDS)
    while i_entry < i_end:
        i_request = tl.full((), 0, tl.int32)
        i_start = tl.full((), 0, tl.int32)
        i_page_start = tl.full((), 0, tl.int32)
        if HAS_ENDS:
            i_request_tile = find_tile(num_pages, num_tiles, i_entry, 1)
            i_request = first_of_tile(i_request_tile, REQUESTS)
            i_start = start_of_tile(num_pages, i_request_tile, 1)
            i_page_start = start_of_tile(page_sums, i_request_tile, 1)
        o_request = i_request + tl.arange(0, REQUESTS)
        prefix_len, seq_len, num_taken = _count_taken(
            prefix_lens, seq_lens, o_request, num_requests, page_size
        )
        first_page = i_page_start + tl.cumsum(num_taken) - num_taken
        if not HAS_ENDS:
            if tl.program_id(0) == 0:
                tl.store(num_pages + o_request, num_taken, mask=o_request < num_requests_padded)
        stop = i_start + tl.cumsum(seq_len - prefix_len)
        i_stop = tl.max(stop)
        first_tile, stop_tile, step = own_tiles(i_entry, i_stop, i_end, num_programs, ENTRIES, HAS_ENDS)
        for i_tile in range(first_tile, stop_tile, step):
            o_slot = i_tile * ENTRIES + tl.arange(0, ENTRIES)
            m_slot = (o_slot >= i_start) & (o_slot < tl.minimum(i_stop, num_slots))
            owner = find_owners(stop - (seq_len - prefix_len), i_tile * ENTRIES, ENTRIES)
            position = (tl.gather(seq_len - stop, owner, 0) + o_slot).to(tl.int32)
            before = tl.gather(prefix_len, owner, 0)
            i_page = position // page_size - _num_pages_of(before, page_size)
            # The first new tokens fill the page in which the prefix ends.
            m_last = m_slot & (i_page < 0)
            last = tl.load(last_loc + i_request + owner, mask=m_last, other=0).to(tl.int64)
            i_free = tl.gather(first_page, owner, 0) + i_page
            m_free = m_slot & (i_page >= 0) & (i_free < num_free)
            page = tl.load(free_pages + i_free, mask=m_free, other=0).to(tl.int64)
            slot = tl.where(m_last, last + 1 + (position - before), page * page_size + position % page_size)
            tl.store(out_cache_loc + o_slot, slot, mask=m_last | m_free)
        i_entry = tl.maximum(i_stop, 1)


def write_allocate_slots(
    last_loc: torch.Tensor,
    prefix_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    num_requests: int,
    free_pages: torch.Tensor,
    page_size: int,
    out_cache_loc: torch.Tensor,
    num_pages: torch.Tensor,
) -> None:
    """Write the cache slot of each new token of a step, and how many free pages each request takes.

    last_loc [R], the slot of each request's last cached token; prefix_lens and seq_lens [R], its tokens
    before and after the step, below 2**31, prefix_len <= seq_len; free_pages [F], in the order in which they
    are taken; each int32 or int64. The first num_requests of the R requests are live; nothing is read of the
    others. page_size in tokens.
    Request by request, the new tokens fill the rest of the page in which the prefix ends, the slots
    last_loc + 1 and on; then num_pages = ceil(seq_len / page_size) - ceil(prefix_len / page_size) pages from
    the front of free_pages, in order: the slot of position p is page * page_size + p % page_size. Where the
    prefix is empty or ends with its page, last_loc is not used.
    out_cache_loc int64 [T], contiguous: a slot for each new token, request by request. Rows from the last new
    token on are untouched, and so are those of tokens whose page lies past the end of free_pages, which must
    hold enough pages; T must not be smaller than the number of new tokens, and those past it are dropped.
    num_pages int32 [R], contiguous, every element written: 0 for padding.
    One launch, or four for more than 4,096 requests. Does not synchronise or allocate, so a CUDA graph can
    capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, before anything is written.
    Rule: SGLang alloc_extend_kernel, alloc_decode_kernel.

    >>> last_loc, prefix_lens = torch.tensor([29, -1, 99]), torch.tensor([2, 0, 4])
    >>> seq_lens, free_pages = torch.tensor([7, 0, 6]), torch.tensor([5, 3, 8])
    >>> slots, num_pages = torch.full((8,), 77), torch.empty(3, dtype=torch.int32)
    >>> write_allocate_slots(last_loc, prefix_lens, seq_lens, 3, free_pages, 4, slots, num_pages)
    >>> slots.tolist(), num_pages.tolist()
    ([30, 31, 20, 21, 22, 12, 13, 77], [1, 0, 1])
    """
    check_indices("last_loc", last_loc, None)
    device, num_requests_padded = last_loc.device, last_loc.numel()
    check_indices("prefix_lens", prefix_lens, num_requests_padded, device)
    check_indices("seq_lens", seq_lens, num_requests_padded, device)
    check_int("num_requests", num_requests, 0, num_requests_padded)
    check_indices("free_pages", free_pages, None, device)
    check_int("page_size", page_size, 1)
    check_tensor("out_cache_loc", out_cache_loc, (torch.int64,), (None,), device)
    check_tensor("num_pages", num_pages, (torch.int32,), (num_requests_padded,), device)
    if num_requests_padded == 0:
        return
    num_slots = out_cache_loc.numel()
    shape = shape_of_list(num_slots, num_requests_padded)
    with torch.cuda.device(last_loc.get_device()):
        if shape.has_ends:
            # Until the last launch num_pages holds the sums of tiles: of tokens, then of pages.
            _sum_tiles[(shape.num_tiles,)](
                prefix_lens,
                seq_lens,
                num_pages,
                num_requests,
                shape.num_tiles,
                page_size,
                REQUESTS=shape.requests,
                num_warps=NUM_WARPS,
                **early(last_loc.device),
            )
            launch_carries(num_pages, num_pages[shape.num_tiles :], shape.num_tiles, 1)
        _write_allocated_slots[(shape.num_programs,)](
            last_loc,
            prefix_lens,
            seq_lens,
            free_pages,
            out_cache_loc,
            num_pages,
            num_requests,
            num_requests_padded,
            free_pages.numel(),
            num_slots,
            page_size,
            HAS_ENDS=shape.has_ends,
            REQUESTS=shape.requests,
            ENTRIES=shape.entries,
            num_warps=NUM_WARPS,
            **early(last_loc.device),
        )
        if shape.has_ends:
            _write_num_pages[(shape.num_tiles,)](
                prefix_lens,
                seq_lens,
                num_pages,
                num_requests,
                num_requests_padded,
                page_size,
                REQUESTS=shape.requests,
                num_warps=NUM_WARPS,
                **early(last_loc.device),
            )
