"""The table of operations."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cumae import oracle
from cumae.oracle import Case, Inputs
from cumae.oracle.rules import INT32_MAX
from cumae.properties.batches.cases import renamed
from cumae.properties.dialects import Piece
from cumae.properties.dialects.cumae import row_dtype
from cumae.properties.operations.operation import Operation, Output

_SPAN = 2**31


def _int32(case: Case) -> str:
    return "int32"


def _int64(case: Case) -> str:
    return "int64"


def _tokens(case: Case) -> tuple[int, ...]:
    return (case.num_tokens_padded,)


def _requests(case: Case) -> tuple[int, ...]:
    return (case.num_requests_padded + 1,)


def _one(case: Case) -> tuple[int, ...]:
    return (1,)


def _work_items(case: Case) -> tuple[int, ...]:
    return (case.max_work_items,)


def _chunks(case: Case) -> tuple[int, ...]:
    return (case.num_context_chunks,)


def _chunked(more: int) -> Callable[[Case], tuple[int, ...]]:
    """Return the shape of an output with an entry for each padded request, and some more, in each chunk."""
    return lambda case: (case.num_context_chunks * (case.num_requests_padded + more),)


def _largest_id(case: Case) -> int:
    return max((max(r.block_ids, default=0) for r in case.batch.requests), default=0)


def _large_slots(case: Case) -> Iterator[Case]:
    """Yield ids whose product with the block size passes 2^31, and table rows that do."""
    parts = case.batch.block_size // case.kernel_block_size
    room = INT32_MAX // parts - _largest_id(case) - 1
    yield renamed(case, max(min(_SPAN // case.batch.block_size + 1, room), 0))
    yield from _far_table_rows(case)


def _far_table_rows(case: Case) -> Iterator[Case]:
    """Yield table rows whose offset passes 2^31 elements."""
    layout = replace(case.layout, num_spare_rows=0, num_padding_requests=0, index_dtype="int32")
    rows = layout.row_index or range(len(case.batch.requests))
    if max(rows, default=0) > 0:
        yield replace(case, layout=replace(layout, table_row_gap=_SPAN // max(rows) + 1))


def _large_rows(case: Case) -> Iterator[Case]:
    """Yield block ids whose offset in the cache passes 2^31 and 2^32 elements, rows of keys beyond 2^31.

    Rows are dense, as not every engine can hold them otherwise, and so wide that ids stay 32-bit.
    """
    if row_dtype(case)[1] < 64:
        case = replace(case, options=replace(case.options, kv_lora_rank=512, qk_rope_head_dim=64))
    stride = case.batch.block_size * row_dtype(case)[1]
    for span in (_SPAN, 2 * _SPAN):
        yield renamed(case, span // stride + 1)
    layout = replace(case.layout, num_padding_tokens=0, key_slack=0)
    num_rows = max(case.num_keys, case.batch.num_tokens)
    if num_rows > 1:
        yield replace(case, layout=replace(layout, key_row_gap=_SPAN // (num_rows - 1) + 1))


SEQUENCE_LAYOUT = Operation(
    "sequence_layout",
    oracle.sequence_layout,
    (
        Output("cu_seqlens_q", _int32, _requests, "request_start", "the running sum of query_len"),
        Output(
            "cu_seqlens_k",
            _int32,
            _requests,
            "request_start",
            "the running sum of key rows, cached tokens included (FastDeploy#7727)",
        ),
        Output("token_to_request", _int32, _tokens, "token", "the request whose rows contain the token"),
        Output("max_seqlen_q", _int32, _one, "step", "the longest query_len of the step"),
        Output(
            "max_seqlen_k", _int32, _one, "step", "the longest seq_len of requests that compute something"
        ),
    ),
    frozenset({"compress_ratio", "key_scope", "token_padding", "dummy_request"}),
    "rows of request b are cu_seqlens_q[b] … cu_seqlens_q[b+1]-1, in request order",
    ("cumae.gpu_impl:write_sequence_layout",),
)
POSITION_IDS = Operation(
    "position_ids",
    oracle.position_ids,
    (Output("position_ids", _int64, _tokens, "token", "context_len plus the token's index in its chunk"),),
    frozenset(),
    "position_ids[cu_seqlens_q[b] + i] = context_len[b] + i, 0 on padding",
    ("cumae.gpu_impl:write_position_ids",),
)
SLOT_MAPPING = Operation(
    "slot_mapping",
    oracle.slot_mapping,
    (
        Output(
            "slot_mapping",
            _int64,
            lambda case: (case.num_slots,),
            "slot",
            "table[row][p // block_size] * block_size + p % block_size, -1 from the true token count on",
        ),
    ),
    frozenset(
        {
            "row_index",
            "world",
            "rank",
            "interleave",
            "kernel_block_size",
            "missing_blocks",
            "num_padding_slots",
        }
    ),
    "each new token is written to the slot of its position in its request's blocks",
    ("cumae.gpu_impl:write_slot_mapping",),
    _large_slots,
)
CAUSAL_WINDOWS = Operation(
    "causal_windows",
    oracle.causal_windows,
    (
        Output("ks", _int32, _tokens, "token", "the first key row of the token's request that it may see"),
        Output("ke", _int32, _tokens, "token", "one past the last key row complete at the token's position"),
    ),
    frozenset({"compress_ratio", "window", "key_scope", "world", "rank", "interleave"}),
    "a prefill token sees [ks, ke): its request's keys up to its own position; decodes and padding (0, 0)",
    ("cumae.gpu_impl:write_causal_windows", "cumae.gpu_impl:write_packed_causal_windows"),
)
PREFIX_INTERLEAVE = Operation(
    "prefix_interleave",
    oracle.prefix_interleave,
    (
        Output(
            "keys",
            lambda case: row_dtype(case)[0],
            lambda case: (case.capacity, row_dtype(case)[1]),
            "key_row",
            "row cu_seqlens_k[b] + p is the cached row of position p, or the new row behind the context",
            lambda case: (row_dtype(case)[1] + case.layout.key_row_gap, 1),
            {"cache": Piece("cache"), "new": Piece("new_rows")},
        ),
    ),
    frozenset({"key_scope", "key_slack", "row_format", "context_slack"}),
    "each request's keys stand in order of position: cached rows, then new ones",
    ("cumae.gpu_impl:write_prefix_interleave",),
    _large_rows,
)
_SCHEDULE = (
    Output(
        "work_indptr",
        _int32,
        lambda case: (case.options.num_workers + 1,),
        "worker_start",
        "worker w begins at w * (n // W) + min(w, n % W) of n items over W workers",
    ),
    Output(
        "work_token", _int32, _work_items, "work_item", "the row whose keys the item holds, -1 for no item"
    ),
    Output(
        "work_start", _int32, _work_items, "work_item", "the first key of the item, counted within its row"
    ),
    Output(
        "work_stop",
        _int32,
        _work_items,
        "work_item",
        "one past the last key, min(start + split_size, kv_len)",
    ),
    Output("num_splits", _int32, _tokens, "token", "ceil(kv_len / split_size), 0 on padding"),
)
SPARSE_SCHEDULE = Operation(
    "sparse_schedule",
    oracle.sparse_schedule,
    _SCHEDULE,
    frozenset({"topk", "split_size", "num_workers"}),
    "a token attends to kv_len = min(position + 1, topk) keys, cut in splits, which workers get in order",
    ("cumae.gpu_impl:write_sparse_schedule",),
)


def _faults(inputs: Inputs, outputs: Mapping[str, list[int]]) -> list[str]:
    kv_lens = inputs.call(oracle.kv_lens_of)
    return oracle.schedule_faults(outputs["work_token"], outputs["work_start"], outputs["work_stop"], kv_lens)


ANY_SCHEDULE = Operation(
    "any_schedule",
    oracle.any_schedule,
    (
        Output("work_token", _int32, _work_items, "work_item", "the row whose keys the item holds"),
        Output("work_start", _int32, _work_items, "work_item", "the first key of the item within its row"),
        Output(
            "work_stop", _int32, _work_items, "work_item", "one past the last key; at most start: no item"
        ),
    ),
    frozenset({"topk", "split_size", "num_workers"}),
    "the items of each row, clipped to its kv_len, hold each of its keys once",
    judge=_faults,
)
METADATA_CACHE = Operation(
    "metadata_cache",
    oracle.metadata_cache,
    (
        *_SCHEDULE,
        Output(
            "rebuilt",
            _int32,
            _one,
            "step",
            "1 unless the key is known and that of the step before",
            optional=True,
        ),
    ),
    frozenset({"topk", "split_size", "num_workers", "host_lens"}),
    "a cached schedule is that of a fresh build, and is kept while nothing it depends on changes",
    ("cumae.gpu_impl:MetadataCache",),
)
PERSISTENT_BUFFERS = Operation(
    "persistent_buffers",
    oracle.persistent_buffers,
    (
        Output(
            "request_of_row",
            _int32,
            lambda case: (case.max_num_tokens,),
            "token",
            "the request of the token, -1 on padding and on rows that only the step before had",
            starts=-1,
        ),
        Output(
            "kv_indptr",
            _int32,
            lambda case: (case.max_num_tokens + 1,),
            "token_start",
            "the running sum of kv_len = min(position + 1, topk), its last value to the end",
            starts=0,
        ),
        Output(
            "kv_indices",
            _int32,
            lambda case: (case.max_num_tokens * case.options.topk,),
            "selected_key",
            "the slot of each selected position, -1 on rows that only the step before had",
            starts=-1,
        ),
    ),
    frozenset({"topk", "num_spare_tokens", "missing_blocks"}),
    "a step writes what it needs, clears what only the step before needed, and touches nothing beyond",
    ("cumae.gpu_impl:PersistentBuffers",),
)
TOPK_TO_SLOTS = Operation(
    "topk_to_slots",
    oracle.topk_to_slots,
    (
        Output(
            "selected_slots",
            _int32,
            lambda case: (case.num_tokens_padded * case.options.topk,),
            "selected_key",
            "table[b][p // block_size] * block_size + p % block_size, -1 where there is none",
        ),
    ),
    frozenset({"topk", "world", "rank", "interleave", "missing_blocks"}),
    "a selected position of a request is read from the slot it was written to",
    ("cumae.gpu_impl:write_topk_to_slots",),
    _far_table_rows,
)
CHUNKED_CONTEXT = Operation(
    "chunked_context",
    oracle.chunked_context,
    (
        Output("chunk_starts", _int32, _chunked(0), "chunk_request", "chunk j starts at j * chunk_len"),
        Output(
            "chunk_lens",
            _int32,
            _chunked(0),
            "chunk_request",
            "the request's tokens from the start of the chunk on, chunk_len at most",
        ),
        Output(
            "chunk_cu_seqlens",
            _int32,
            _chunked(1),
            "chunk_start",
            "the running sum of chunk_lens in each chunk",
        ),
        Output("chunk_totals", _int32, _chunks, "chunk", "the sum of chunk_lens in the chunk"),
        Output("chunk_maxima", _int32, _chunks, "chunk", "the longest of chunk_lens in the chunk"),
    ),
    frozenset({"key_scope", "context_slack", "workspace"}),
    "cached contexts are cut at the same whole blocks in every request, so that a chunk of all fits",
    ("cumae.gpu_impl:write_chunked_context",),
)
OPERATIONS = {
    operation.name: operation
    for operation in (
        SEQUENCE_LAYOUT,
        POSITION_IDS,
        SLOT_MAPPING,
        CAUSAL_WINDOWS,
        PREFIX_INTERLEAVE,
        SPARSE_SCHEDULE,
        ANY_SCHEDULE,
        METADATA_CACHE,
        PERSISTENT_BUFFERS,
        TOPK_TO_SLOTS,
        CHUNKED_CONTEXT,
    )
}
