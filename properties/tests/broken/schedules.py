"""Oracles of schedules and of what outlives a step, each wrong in one way."""

from collections.abc import Sequence

from cumae.oracle import (
    UNTOUCHED,
    MetadataCache,
    PersistentBuffers,
    SparseSchedule,
    metadata_cache,
    persistent_buffers,
    sparse_schedule,
)


def keys_of_the_whole_request(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> SparseSchedule:
    lens = [
        context_len + query_len
        for context_len, query_len in zip(context_lens, query_lens, strict=True)
        for _ in range(query_len)
    ]
    ones = [1] * len(lens)
    return sparse_schedule(
        [length - 1 for length in lens], ones, num_tokens_padded, topk, split_size, num_workers
    )


def splits_past_the_last_key(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> SparseSchedule:
    right = sparse_schedule(context_lens, query_lens, num_tokens_padded, topk, split_size, num_workers)
    num_items = right.work_indptr[-1]
    stops = [start + split_size for start in right.work_start[:num_items]]
    return right._replace(work_stop=stops + right.work_stop[num_items:])


def rest_for_the_last_worker(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> SparseSchedule:
    right = sparse_schedule(context_lens, query_lens, num_tokens_padded, topk, split_size, num_workers)
    num_items = right.work_indptr[-1]
    each = num_items // num_workers
    return right._replace(work_indptr=[each * worker for worker in range(num_workers)] + [num_items])


def padding_attends_to_one_key(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens: int,
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> SparseSchedule:
    padding = [1] * (num_tokens_padded - num_tokens)
    return sparse_schedule(
        [*context_lens, *(0 for _ in padding)],
        [*query_lens, *padding],
        num_tokens_padded,
        topk,
        split_size,
        num_workers,
    )


def key_of_clamped_lengths(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
    previous_context_lens: Sequence[int] | None,
    previous_query_lens: Sequence[int] | None,
    previous_num_tokens_padded: int,
) -> MetadataCache:
    def key(contexts: Sequence[int], queries: Sequence[int], num_tokens: int) -> object:
        lens = (context + query for context, query in zip(contexts, queries, strict=True))
        return num_tokens, max(queries, default=0), [min(length, topk) for length in lens]

    rest = num_tokens_padded, topk, split_size, num_workers
    fresh = sparse_schedule(context_lens, query_lens, *rest)
    if previous_context_lens is None or previous_query_lens is None:
        return MetadataCache(*fresh, rebuilt=[1])
    before = key(previous_context_lens, previous_query_lens, previous_num_tokens_padded)
    if key(context_lens, query_lens, num_tokens_padded) != before:
        return MetadataCache(*fresh, rebuilt=[1])
    return MetadataCache(*sparse_schedule(previous_context_lens, previous_query_lens, *rest), rebuilt=[0])


def key_of_exact_contexts(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
    previous_context_lens: Sequence[int] | None,
    previous_query_lens: Sequence[int] | None,
    previous_num_tokens_padded: int,
) -> MetadataCache:
    fresh = sparse_schedule(context_lens, query_lens, num_tokens_padded, topk, split_size, num_workers)
    before = previous_context_lens, previous_query_lens, previous_num_tokens_padded
    return MetadataCache(*fresh, rebuilt=[int(before != (context_lens, query_lens, num_tokens_padded))])


def key_of_a_step_the_host_does_not_know(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
    previous_context_lens: Sequence[int] | None,
    previous_query_lens: Sequence[int] | None,
    previous_num_tokens_padded: int,
) -> MetadataCache:
    return metadata_cache(
        context_lens,
        query_lens,
        num_tokens_padded,
        topk,
        split_size,
        num_workers,
        previous_context_lens,
        previous_query_lens,
        previous_num_tokens_padded,
        host_lens=True,
    )


def nothing_cleared(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> PersistentBuffers:
    return persistent_buffers(
        context_lens,
        query_lens,
        num_tokens_padded,
        0,
        max_num_tokens,
        topk,
        topk_indices,
        block_table,
        block_size,
    )


def everything_cleared(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> PersistentBuffers:
    return persistent_buffers(
        context_lens,
        query_lens,
        num_tokens_padded,
        max_num_tokens,
        max_num_tokens,
        topk,
        topk_indices,
        block_table,
        block_size,
    )


def one_key_cleared_for_each_row(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    previous_num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> PersistentBuffers:
    right = persistent_buffers(
        context_lens,
        query_lens,
        num_tokens_padded,
        previous_num_tokens_padded,
        max_num_tokens,
        topk,
        topk_indices,
        block_table,
        block_size,
    )
    live = num_tokens_padded * topk
    cleared = live + max(0, previous_num_tokens_padded - num_tokens_padded)
    untouched = [UNTOUCHED] * (max_num_tokens * topk - cleared)
    return right._replace(kv_indices=[*right.kv_indices[:cleared], *untouched])


def offsets_end_with_the_padding(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    previous_num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> PersistentBuffers:
    right = persistent_buffers(
        context_lens,
        query_lens,
        num_tokens_padded,
        previous_num_tokens_padded,
        max_num_tokens,
        topk,
        topk_indices,
        block_table,
        block_size,
    )
    live = right.kv_indptr[: num_tokens_padded + 1]
    return right._replace(kv_indptr=live + [0] * (max_num_tokens - num_tokens_padded))


def positions_taken_for_slots(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    previous_num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
) -> PersistentBuffers:
    most = max(map(sum, zip(context_lens, query_lens, strict=True)), default=0)
    return persistent_buffers(
        context_lens,
        query_lens,
        num_tokens_padded,
        previous_num_tokens_padded,
        max_num_tokens,
        topk,
        topk_indices,
        [list(range(most))] * len(context_lens),
        block_size=1,
    )
