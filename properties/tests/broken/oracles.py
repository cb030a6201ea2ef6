"""Oracles that are wrong in one way, and which tag each is shown by."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle import LocalLens, local_lens
from cumae.properties.tests.broken.cache import (
    a_negative_slot_counts_from_the_end,
    rows_without_a_slot_are_not_counted,
)
from cumae.properties.tests.broken.cache_groups import (
    positions_without_a_slot_left_out,
    ring_in_the_dummy_block,
    ring_of_a_whole_block,
    states_counted_over_all_ranks,
    states_of_tokens_without_a_slot,
    window_without_its_oldest_key,
)
from cumae.properties.tests.broken.cuts import (
    chunks_of_rows_alone,
    keys_before_the_step,
    padding_sees_one_key,
    sequences_without_empty_ones,
)
from cumae.properties.tests.broken.drafts import (
    bonus_by_row,
    drafts_before_the_request,
    first_rows_are_sampled,
    full_pages_go_on,
    pages_of_new_tokens_alone,
)
from cumae.properties.tests.broken.layouts import (
    context_means_decode,
    floor_of_the_sum,
    new_rows_counted_within_their_request,
    one_token_means_decode,
    padding_from_the_padded_count,
    positions_from_zero,
    request_index_as_row,
    rows_by_key_offsets,
    window_without_the_token_itself,
)
from cumae.properties.tests.broken.page_read import first_keys_of_the_window, rows_without_gaps
from cumae.properties.tests.broken.page_write import tokens_before_heads, values_in_one_group
from cumae.properties.tests.broken.pages import (
    columns_of_tokens_before_the_last,
    full_page_without_a_token,
    pages_of_as_many_tokens,
    window_of_one_token_more,
)
from cumae.properties.tests.broken.plans import (
    contexts_cut_within_a_block,
    every_rank_holds_every_token,
    requests_counted_without_the_empty_ones,
)
from cumae.properties.tests.broken.routers import (
    best_one_of_a_group,
    bias_rounded_to_bf16,
    groups_left_out,
    groups_masked_with_zero,
    ties_to_the_higher_index,
    weights_with_the_bias,
)
from cumae.properties.tests.broken.schedules import (
    everything_cleared,
    key_of_a_step_the_host_does_not_know,
    key_of_clamped_lengths,
    key_of_exact_contexts,
    keys_of_the_whole_request,
    nothing_cleared,
    offsets_end_with_the_padding,
    one_key_cleared_for_each_row,
    padding_attends_to_one_key,
    positions_taken_for_slots,
    rest_for_the_last_worker,
    splits_past_the_last_key,
)
from cumae.properties.tests.broken.selections import (
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
from cumae.properties.tests.simulation.simulated import Oracle


class Broken(NamedTuple):
    """A wrong oracle, the fixtures' tag of the fault, and the features that drawn cases need to show it."""

    operation: str
    oracle: Oracle
    tag: str
    features: frozenset[str] = frozenset()


def rounded_up_on_every_rank(seq_lens: Sequence[int], num_requests: int, world: int = 1) -> LocalLens:
    """Every rank is given as many tokens as the one that holds most."""
    most = [-(-seq_len // world) for seq_len in seq_lens]
    return LocalLens(most, [count for count in most for _ in range(world)])


def runs_of_one_position(
    seq_lens: Sequence[int], num_requests: int, world: int = 1, rank: int = 0
) -> LocalLens:
    """Tokens go round the ranks one by one, whatever the interleave."""
    return local_lens(seq_lens, num_requests, world, rank)


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
    Broken("page_write", tokens_before_heads, "page_order", frozenset({"page_order", "num_heads"})),
    Broken("page_write", values_in_one_group, "page_order", frozenset({"page_order"})),
    Broken("page_read", first_keys_of_the_window, "sliding_window", frozenset({"window"})),
    Broken("page_read", rows_without_gaps, "row_map", frozenset({"row_index"})),
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
    Broken("local_lens", rounded_up_on_every_rank, "context_parallel", frozenset({"world", "rank"})),
    Broken("local_lens", runs_of_one_position, "context_parallel", frozenset({"world", "interleave"})),
    Broken("page_table", columns_of_tokens_before_the_last, "block_edge"),
    Broken("page_table", window_of_one_token_more, "vllm#3385", frozenset({"window"})),
    Broken("kv_indices", full_page_without_a_token, "empty_request"),
    Broken("kv_indices", pages_of_as_many_tokens, "sliding_window", frozenset({"window"})),
    Broken("draft_steps", first_rows_are_sampled, "drafts", frozenset({"max_drafts"})),
    Broken("draft_steps", bonus_by_row, "cached_prefix"),
    Broken("draft_steps", drafts_before_the_request, "multi_token_decode", frozenset({"max_drafts"})),
    Broken("allocate_slots", full_pages_go_on, "block_edge"),
    Broken("allocate_slots", pages_of_new_tokens_alone, "free_pages"),
    Broken("window_slots", window_without_its_oldest_key, "sliding_window", frozenset({"window"})),
    Broken(
        "window_slots",
        positions_without_a_slot_left_out,
        "missing_block",
        frozenset({"window", "missing_blocks"}),
    ),
    Broken(
        "compressed_slots",
        states_of_tokens_without_a_slot,
        "missing_block",
        frozenset({"compress_ratio", "missing_blocks"}),
    ),
    Broken(
        "compressed_slots",
        states_counted_over_all_ranks,
        "context_parallel",
        frozenset({"compress_ratio", "world", "rank", "interleave"}),
    ),
    Broken("ring_slots", ring_of_a_whole_block, "ring", frozenset({"ring_capacity"})),
    Broken("ring_slots", ring_in_the_dummy_block, "vllm#33937"),
    Broken("chunked_context", chunks_of_parts_of_a_block, "chunks", frozenset({"workspace"})),
    Broken("chunked_context", empty_chunk_holds_the_one_before, "sglang#22688"),
    Broken("sequence_chunks", sequences_without_empty_ones, "empty_request"),
    Broken("sequence_chunks", chunks_of_rows_alone, "absolute_chunks", frozenset({"absolute_chunks"})),
    Broken("flat_decodes", keys_before_the_step, "multi_token_decode", frozenset({"topk"})),
    Broken("flat_decodes", padding_sees_one_key, "padding"),
    Broken("any_chunks", contexts_cut_within_a_block, "block_edge", frozenset({"workspace"})),
    Broken("any_chunks", requests_counted_without_the_empty_ones, "empty_request"),
    Broken("any_chunks", every_rank_holds_every_token, "context_parallel", frozenset({"world"})),
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
