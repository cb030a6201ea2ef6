"""The table of operations."""

from collections.abc import Iterator
from dataclasses import replace

from cumae import oracle
from cumae.oracle import Case
from cumae.oracle.rules import INT32_MAX
from cumae.properties.batches.cases import renamed
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


def _largest_id(case: Case) -> int:
    return max((max(r.block_ids, default=0) for r in case.batch.requests), default=0)


def _large_slots(case: Case) -> Iterator[Case]:
    """Yield ids whose product with the block size passes 2^31, and table rows that do."""
    parts = case.batch.block_size // case.kernel_block_size
    room = INT32_MAX // parts - _largest_id(case) - 1
    yield renamed(case, max(min(_SPAN // case.batch.block_size + 1, room), 0))
    layout = replace(case.layout, num_spare_rows=0, num_padding_requests=0, index_dtype="int32")
    rows = layout.row_index or range(len(case.batch.requests))
    if max(rows, default=0) > 0:
        yield replace(case, layout=replace(layout, table_row_gap=_SPAN // max(rows) + 1))


def _large_rows(case: Case) -> Iterator[Case]:
    """Yield block ids, and rows of keys, whose offset in the tensor passes 2^31 elements."""
    _, width = row_dtype(case)
    gap = max(case.layout.cache_row_gap, 4096 - width)
    stride = case.batch.block_size * (width + gap)
    moved = renamed(case, _SPAN // stride + 1)
    yield replace(moved, layout=replace(case.layout, cache_row_gap=gap))
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
        ),
    ),
    frozenset({"key_scope", "key_slack", "row_format"}),
    "each request's keys stand in order of position: cached rows, then new ones",
    ("cumae.gpu_impl:write_prefix_interleave",),
    _large_rows,
)
OPERATIONS = {
    operation.name: operation
    for operation in (SEQUENCE_LAYOUT, POSITION_IDS, SLOT_MAPPING, CAUSAL_WINDOWS, PREFIX_INTERLEAVE)
}
