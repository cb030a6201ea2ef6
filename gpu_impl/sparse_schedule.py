"""The splits of each token's selected keys and their division over workers, as Triton kernels."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_int, check_tensor
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.key_counts import (
    TOKENS_PER_TILE,
    check_tokens,
    count_keys,
    count_splits,
    launch_tile_sums,
)

ITEMS_PER_BLOCK = 512
SPLITS_PER_BLOCK = 128
WORKERS_PER_CHUNK = 1024


@triton.jit(
    do_not_specialize=["num_requests", "num_tokens", "topk", "split_size", "num_workers", "max_splits"]
)
def _write_items(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    work_indptr: tl.tensor,
    work_token: tl.tensor,
    work_start: tl.tensor,
    work_stop: tl.tensor,
    num_splits: tl.tensor,
    num_requests: tl.tensor,
    num_tokens: tl.tensor,
    topk: tl.tensor,
    split_size: tl.tensor,
    num_workers: tl.tensor,
    max_splits: tl.tensor,
    IS_ONLY_TILE: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WORKERS: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_first = tl.program_id(0).to(tl.int64) * ROWS
    if IS_ONLY_TILE:
        # Each program counts the whole step, which is cheaper than a launch.
        o_any = tl.arange(0, TILE)
        _, kv_len = count_keys(
            token_to_request, cu_seqlens_q, context_lens, num_requests, o_any, o_any < num_tokens, topk
        )
        count = count_splits(kv_len, split_size)
        num_items = tl.sum(count)
        num_before = tl.sum(tl.where(o_any < i_first, count, 0))
    else:
        num_items = tl.load(num_splits + num_tokens - 1)
        num_before = tl.load(num_splits + i_first - 1, mask=i_first > 0, other=0)
        i_tile = i_first // TILE * TILE
        # Sums inside a tile count from its first token.
        num_before += tl.load(num_splits + i_tile - 1, mask=(i_tile > 0) & (i_tile < i_first), other=0)
    o_token = i_first + tl.arange(0, ROWS)
    m_token = o_token < num_tokens
    _, kv_len = count_keys(token_to_request, cu_seqlens_q, context_lens, num_requests, o_token, m_token, topk)
    count = count_splits(kv_len, split_size)
    if IS_ONLY_TILE:
        tl.store(num_splits + o_token, count, mask=m_token)
    first_item = (num_before + tl.cumsum(count) - count).to(tl.int64)
    most = tl.max(count)
    stop_slot = tl.minimum(i_first + ROWS, num_tokens) * max_splits
    for i_split in range(0, max_splits, COLUMNS):
        o_split = i_split + tl.arange(0, COLUMNS)
        if i_split < most:
            o_item = first_item[:, None] + o_split[None, :]
            m_item = o_split[None, :] < count[:, None]
            start = o_split.to(tl.int64)[None, :] * split_size
            stop = tl.minimum(start + split_size, kv_len[:, None])
            i_token = tl.broadcast_to(o_token[:, None], (ROWS, COLUMNS))
            start = tl.broadcast_to(start, (ROWS, COLUMNS))
            tl.store(work_token + o_item, i_token.to(tl.int32), mask=m_item)
            tl.store(work_start + o_item, start.to(tl.int32), mask=m_item)
            tl.store(work_stop + o_item, stop.to(tl.int32), mask=m_item)
        # The unused tail is divided by slot, independent of the rows that left it.
        if num_items < stop_slot:
            o_slot = o_token[:, None] * max_splits + o_split[None, :]
            m_slot = m_token[:, None] & (o_split[None, :] < max_splits) & (o_slot >= num_items)
            tl.store(work_token + o_slot, -1, mask=m_slot)
            tl.store(work_start + o_slot, 0, mask=m_slot)
            tl.store(work_stop + o_slot, 0, mask=m_slot)
    if i_first == 0:
        share = num_items // num_workers
        rest = num_items % num_workers
        for i_worker in range(0, num_workers + 1, WORKERS):
            o_worker = i_worker + tl.arange(0, WORKERS).to(tl.int64)
            first = o_worker * share + tl.minimum(o_worker, rest)
            tl.store(work_indptr + o_worker, first.to(tl.int32), mask=o_worker <= num_workers)


@triton.jit(do_not_specialize=["num_requests", "num_tokens", "topk", "split_size"])
def _write_counts(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    num_splits: tl.tensor,
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
    tl.store(num_splits + o_token, count_splits(kv_len, split_size), mask=m_token)


def max_splits_of(topk: int, split_size: int, num_workers: int, num_tokens: int) -> int:
    """Return ceil(topk / split_size), the most items of a token; ValueError unless int32 can count all."""
    check_int("topk", topk, 1)
    check_int("split_size", split_size, 1)
    check_int("num_workers", num_workers, 1)
    max_splits = -(-topk // split_size)
    check_int("num_tokens * ceil(topk / split_size)", num_tokens * max_splits, 0)
    return max_splits


def write_sparse_schedule(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    topk: int,
    split_size: int,
    num_workers: int,
    work_indptr: torch.Tensor,
    work_token: torch.Tensor,
    work_start: torch.Tensor,
    work_stop: torch.Tensor,
    num_splits: torch.Tensor,
) -> None:
    """Write how the selected keys of each token are cut into work items and shared among workers.

    token_to_request [T] (-1 means none; a map padded with 0 is right too), cu_seqlens_q [R+1], context_lens
    [R] in tokens, each int32 or int64. topk >= 1 keys a token at most, split_size >= 1 keys an item,
    num_workers = W >= 1.
    Token i of request b attends to kv_len = min(context_lens[b] + i + 1, topk) keys, padding to 0; item s of
    it covers the keys [s * split_size, min((s + 1) * split_size, kv_len)). Items stand in order of token,
    then of s; of n items worker w has those from w * (n // W) + min(w, n % W), so no two workers differ by
    more than one.
    Outputs, all int32 and contiguous. work_indptr [W+1]: the first item of each worker, then n. work_token,
    work_start, work_stop [T * ceil(topk / split_size)]: the token and the keys of each item; -1 (none), 0 and
    0 from item n on. num_splits [T]: the items of each token, 0 for padding. Every element is written.
    Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or host number, and where int32 cannot count
    the items, before anything is written.
    Rule: the schedule that vllm#42982 caches.

    >>> token_to_request, cu_seqlens_q = torch.tensor([0, 0, 2, 2, 2, -1]), torch.tensor([0, 2, 2, 5])
    >>> schedule = [torch.empty(size, dtype=torch.int32) for size in (4, 12, 12, 12, 6)]
    >>> write_sparse_schedule(token_to_request, cu_seqlens_q, torch.tensor([3, 4, 0]), 4, 2, 3, *schedule)
    >>> work_indptr, work_token, work_start, work_stop, num_splits = (part.tolist() for part in schedule)
    >>> num_splits, work_indptr
    ([2, 2, 1, 1, 2, 0], [0, 3, 6, 8])
    >>> work_token
    [0, 0, 1, 1, 2, 3, 4, 4, -1, -1, -1, -1]
    >>> work_start, work_stop
    ([0, 2, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0], [2, 4, 2, 4, 1, 2, 2, 3, 0, 0, 0, 0])
    """
    check_tokens(token_to_request, cu_seqlens_q, context_lens, None)
    device, num_tokens = token_to_request.device, token_to_request.numel()
    max_splits = max_splits_of(topk, split_size, num_workers, num_tokens)
    check_tensor("work_indptr", work_indptr, (torch.int32,), (num_workers + 1,), device)
    for name, output in (("work_token", work_token), ("work_start", work_start), ("work_stop", work_stop)):
        check_tensor(name, output, (torch.int32,), (num_tokens * max_splits,), device)
    check_tensor("num_splits", num_splits, (torch.int32,), (num_tokens,), device)
    tokens = (token_to_request, cu_seqlens_q, context_lens)
    num_requests = context_lens.numel()
    columns = min(triton.next_power_of_2(max_splits), SPLITS_PER_BLOCK)
    rows = ITEMS_PER_BLOCK // columns
    is_only_tile = num_tokens <= TOKENS_PER_TILE
    with torch.cuda.device(token_to_request.get_device()):
        if not is_only_tile:
            # Until the last launch num_splits holds the running sums that say where each token's items begin.
            launch_tile_sums(*tokens, topk, split_size, num_splits)
        _write_items[(max(1, -(-num_tokens // rows)),)](
            *tokens,
            work_indptr,
            work_token,
            work_start,
            work_stop,
            num_splits,
            num_requests,
            num_tokens,
            topk,
            split_size,
            num_workers,
            max_splits,
            IS_ONLY_TILE=is_only_tile,
            TILE=TOKENS_PER_TILE,
            ROWS=rows,
            COLUMNS=columns,
            WORKERS=WORKERS_PER_CHUNK,
            **early(token_to_request.device),
        )
        if not is_only_tile:
            _write_counts[(-(-num_tokens // TOKENS_PER_TILE),)](
                *tokens,
                num_splits,
                num_requests,
                num_tokens,
                topk,
                split_size,
                TILE=TOKENS_PER_TILE,
                **early(token_to_request.device),
            )
