"""Oracles of positions, windows and slots, each wrong in one way that engines were."""

from collections.abc import Sequence

from cumae.oracle import (
    CausalWindows,
    PositionIds,
    PrefixInterleave,
    SequenceLayout,
    SlotMapping,
    causal_windows,
    prefix_interleave,
    sequence_layout,
    slot_mapping,
)


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
