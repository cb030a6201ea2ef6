"""Oracles that are wrong on purpose, each as a shipped engine was or might be."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle import (
    UNTOUCHED,
    CausalWindows,
    MetadataCache,
    PersistentBuffers,
    PositionIds,
    PrefixInterleave,
    SequenceLayout,
    SlotMapping,
    SparseSchedule,
    causal_windows,
    metadata_cache,
    persistent_buffers,
    prefix_interleave,
    sequence_layout,
    slot_mapping,
    sparse_schedule,
)
from cumae.properties.tests.broken_cache import (
    a_negative_slot_counts_from_the_end,
    rows_without_a_slot_are_not_counted,
)
from cumae.properties.tests.broken_routers import (
    best_one_of_a_group,
    bias_rounded_to_bf16,
    groups_left_out,
    groups_masked_with_zero,
    ties_to_the_higher_index,
    weights_with_the_bias,
)
from cumae.properties.tests.broken_selections import (
    a_slot_for_every_rank,
    chunks_of_parts_of_a_block,
    empty_chunk_holds_the_one_before,
    every_token_of_request_zero,
    every_workspace_from_row_zero,
    gaps_left_where_they_are,
    last_block_beyond_the_table,
    no_token_in_the_workspace,
    own_positions_of_a_workspace,
    selections_counted,
)
from cumae.properties.tests.simulated import Oracle


def positions_from_zero(query_lens: Sequence[int], num_tokens_padded: int) -> PositionIds:
    rows = [i for query_len in query_lens for i in range(query_len)]
    return PositionIds(rows + [0] * (num_tokens_padded - len(rows)))


def rows_by_key_offsets(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    cu_seqlens_k: Sequence[int],
    num_tokens_padded: int,
) -> CausalWindows:
    ks, ke = [0] * num_tokens_padded, [0] * num_tokens_padded
    for b, query_len in enumerate(query_lens):
        for i in range(query_len):
            row = cu_seqlens_k[b] + i
            if is_prefill[b] and row < num_tokens_padded:
                ks[row], ke[row] = cu_seqlens_k[b], cu_seqlens_k[b] + context_lens[b] + i + 1
    return CausalWindows(ks, ke)


def floor_of_the_sum(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    num_tokens_padded: int,
    compress_ratio: int,
) -> SequenceLayout:
    right = sequence_layout(context_lens, query_lens, is_prefill, num_tokens_padded)
    return right._replace(cu_seqlens_k=[tokens // compress_ratio for tokens in right.cu_seqlens_k])


def window_without_the_token_itself(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    num_tokens_padded: int,
    window: int,
) -> CausalWindows:
    return causal_windows(
        context_lens, query_lens, is_prefill, num_tokens_padded, window=window + 1 if window else 0
    )


def padding_from_the_padded_count(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    kernel_block_size: int,
    num_tokens: int,
    num_tokens_padded: int,
    num_slots: int,
) -> SlotMapping:
    right = slot_mapping(context_lens, query_lens, block_table, row_index, kernel_block_size, num_slots)
    previous = list(range(num_tokens, num_tokens_padded))
    return SlotMapping(right.slot_mapping[:num_tokens] + previous + [-1] * (num_slots - num_tokens_padded))


def new_rows_counted_within_their_request(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    capacity: int,
    cu_seqlens_q: Sequence[int],
) -> PrefixInterleave:
    right = prefix_interleave(context_lens, query_lens, is_prefill, block_table, block_size, capacity)
    starts = {row: start for start in cu_seqlens_q for row in range(start, cu_seqlens_q[-1])}
    return PrefixInterleave(
        [
            ("new", key[1] - starts[key[1]]) if isinstance(key, tuple) and len(key) == 2 else key
            for key in right.keys
        ]
    )


def one_token_means_decode(
    context_lens: Sequence[int], query_lens: Sequence[int], num_tokens_padded: int
) -> CausalWindows:
    is_prefill = [query_len > 1 for query_len in query_lens]
    return causal_windows(context_lens, query_lens, is_prefill, num_tokens_padded)


def context_means_decode(
    context_lens: Sequence[int], query_lens: Sequence[int], num_tokens_padded: int
) -> CausalWindows:
    is_prefill = [context_len == 0 for context_len in context_lens]
    return causal_windows(context_lens, query_lens, is_prefill, num_tokens_padded)


def request_index_as_row(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    block_table: Sequence[Sequence[int]],
    num_requests: int,
    kernel_block_size: int,
    num_slots: int,
) -> SlotMapping:
    rows = list(range(num_requests)) + [-1] * (len(query_lens) - num_requests)
    # An entry that nobody may read stands for the block that happens to be there.
    read = [[entry if isinstance(entry, int) else 0 for entry in row] for row in block_table]
    return slot_mapping(context_lens, query_lens, read, rows, kernel_block_size, num_slots)


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


class Broken(NamedTuple):
    """A wrong oracle, the fixtures' tag of the fault, and the features that drawn cases need to show it."""

    operation: str
    oracle: Oracle
    tag: str
    features: frozenset[str] = frozenset()


BROKEN = (
    Broken("position_ids", positions_from_zero, "FastDeploy#7727"),
    Broken("causal_windows", rows_by_key_offsets, "FastDeploy#7598"),
    Broken("causal_windows", one_token_means_decode, "FastDeploy#8065"),
    Broken("causal_windows", context_means_decode, "FastDeploy#7727"),
    Broken("causal_windows", window_without_the_token_itself, "vllm#3385", frozenset({"window"})),
    Broken("sequence_layout", floor_of_the_sum, "compressed", frozenset({"compress_ratio"})),
    Broken("slot_mapping", padding_from_the_padded_count, "vllm#36580"),
    Broken("slot_mapping", request_index_as_row, "sglang#26534", frozenset({"row_index"})),
    Broken("prefix_interleave", new_rows_counted_within_their_request, "empty_request"),
    Broken("cache_write", a_negative_slot_counts_from_the_end, "vllm#36580"),
    Broken(
        "cache_write",
        rows_without_a_slot_are_not_counted,
        "context_parallel",
        frozenset({"world", "rank", "interleave"}),
    ),
    Broken("sparse_schedule", keys_of_the_whole_request, "vllm#42982", frozenset({"topk"})),
    Broken("sparse_schedule", splits_past_the_last_key, "splits", frozenset({"topk", "split_size"})),
    Broken("sparse_schedule", rest_for_the_last_worker, "workers", frozenset({"num_workers"})),
    Broken("sparse_schedule", padding_attends_to_one_key, "padding"),
    Broken("topk_to_slots", every_token_of_request_zero, "topk"),
    Broken("topk_to_slots", last_block_beyond_the_table, "vllm#53982", frozenset({"select_beyond"})),
    Broken("topk_to_slots", a_slot_for_every_rank, "context_parallel", frozenset({"world", "topk"})),
    Broken("topk_to_slots", no_token_in_the_workspace, "prefill_workspace", frozenset({"prefill_workspace"})),
    Broken(
        "topk_to_slots", every_workspace_from_row_zero, "prefill_workspace", frozenset({"prefill_workspace"})
    ),
    Broken(
        "topk_to_slots",
        own_positions_of_a_workspace,
        "context_parallel",
        frozenset({"prefill_workspace", "world", "rank", "topk"}),
    ),
    Broken("compact_topk_slots", gaps_left_where_they_are, "any_order", frozenset({"world", "rank", "topk"})),
    Broken("compact_topk_slots", selections_counted, "context_parallel", frozenset({"world", "rank"})),
    Broken("chunked_context", chunks_of_parts_of_a_block, "chunks", frozenset({"workspace"})),
    Broken("chunked_context", empty_chunk_holds_the_one_before, "sglang#22688"),
    Broken("grouped_topk", weights_with_the_bias, "vllm#12002"),
    Broken("grouped_topk", groups_masked_with_zero, "vllm#13474", frozenset({"router"})),
    Broken("grouped_topk", best_one_of_a_group, "vllm#13474", frozenset({"router"})),
    Broken("grouped_topk", bias_rounded_to_bf16, "vllm#23640", frozenset({"router"})),
    Broken("grouped_topk", ties_to_the_higher_index, "ties", frozenset({"router"})),
    Broken("grouped_topk", groups_left_out, "expert_groups", frozenset({"router"})),
)
BROKEN_IN_TRACES = (
    ("metadata_cache", key_of_clamped_lengths),
    ("metadata_cache", key_of_exact_contexts),
    ("metadata_cache", key_of_a_step_the_host_does_not_know),
    ("persistent_buffers", nothing_cleared),
    ("persistent_buffers", everything_cleared),
    ("persistent_buffers", one_key_cleared_for_each_row),
    ("persistent_buffers", offsets_end_with_the_padding),
    ("persistent_buffers", positions_taken_for_slots),
)
