"""The table of operations."""

from cumae import oracle
from cumae.oracle.model.rules import require_choice
from cumae.properties.dialects import Output, Piece
from cumae.properties.dialects.cumae import cache_before, row_dtype
from cumae.properties.dialects.latents import as_cached
from cumae.properties.operations import (
    allocate_slots,
    cache_groups,
    compact_topk_slots,
    cut_sequences,
    draft_steps,
    page_read,
    page_write,
    pages,
    plans,
    schedules,
)
from cumae.properties.operations.enlarged import far_cache_rows, large_rows, large_slots, largest_slots
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.router import router

SEQUENCE_LAYOUT = Operation(
    "sequence_layout",
    oracle.sequence_layout,
    (
        Output("cu_seqlens_q", "int32", "request_start", "the running sum of query_len"),
        Output(
            "cu_seqlens_k",
            "int32",
            "request_start",
            "the running sum of key rows, cached tokens included (FastDeploy#7727)",
        ),
        Output("token_to_request", "int32", "token", "the request whose rows contain the token"),
        Output("max_seqlen_q", "int32", "step", "the longest query_len of the step"),
        Output("max_seqlen_k", "int32", "step", "the longest seq_len of requests with new tokens"),
    ),
    frozenset({"compress_ratio", "key_scope", "token_padding", "dummy_request"}),
    "rows of request b are cu_seqlens_q[b] … cu_seqlens_q[b+1]-1, in request order",
    ("cumae.gpu_impl:write_sequence_layout",),
)
POSITION_IDS = Operation(
    "position_ids",
    oracle.position_ids,
    (Output("position_ids", "int64", "token", "context_len plus the token's index in its chunk"),),
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
            "int64",
            "slot",
            "table[row][p // block_size] * block_size + p % block_size, -1 from the true token count on",
            shape=lambda case: (case.num_slots,),
            carries=("num_padding_slots",),
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
    large_slots,
)
CAUSAL_WINDOWS = Operation(
    "causal_windows",
    oracle.causal_windows,
    (
        Output("ks", "int32", "window_start", "the first key row of the token's request that it may see"),
        Output("ke", "int32", "window_stop", "one past the last key row complete at the token's position"),
    ),
    frozenset({"compress_ratio", "window", "key_scope", "world", "rank", "interleave", "split_groups"}),
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
            "key_row",
            "row cu_seqlens_k[b] + p is the cached row of position p, or the new row behind the context",
            shape=lambda case: (case.capacity, row_dtype(case)[1]),
            strides=lambda case: (row_dtype(case)[1] + case.layout.key_row_gap, 1),
            pieces={"cache": Piece("cache"), "new": Piece("new_rows")},
            carries=("key_slack",),
        ),
    ),
    frozenset({"key_scope", "key_slack", "row_format", "context_slack"}),
    "each request's keys stand in order of position: cached rows, then new ones",
    ("cumae.gpu_impl:write_prefix_interleave",),
    large_rows,
)
CACHE_WRITE = Operation(
    "cache_write",
    oracle.cache_write,
    (
        Output(
            "cache",
            lambda case: row_dtype(case)[0],
            "cache_slot",
            "the slot's new row; without one, the old content. A row is copied, or becomes 656 bytes: 512"
            " fp8 numbers x / s in 4 tiles, 4 fp32 scales s, 64 bf16; s is amax / 448, at least 2^-126, or"
            " the power of two no less than that and 1e-4",
            shape=lambda case: (case.num_cache_blocks, case.batch.block_size, row_dtype(case)[1]),
            pieces={"new": Piece("new_latents", encode=as_cached)},
            before=cache_before,
        ),
    ),
    frozenset(
        {
            "row_format",
            "power_of_two_scales",
            "num_spare_tokens",
            "num_padding_slots",
            "missing_blocks",
            "row_index",
            "world",
            "rank",
            "interleave",
        }
    ),
    "each new row is written to its slot; a negative slot writes nothing, and no other bit changes",
    ("cumae.gpu_impl:write_cache",),
    far_cache_rows,
)
TOPK_TO_SLOTS = Operation(
    "topk_to_slots",
    oracle.topk_to_slots,
    (
        Output(
            "selected_slots",
            "int32",
            "selected_key",
            "table[b][l // block_size] * block_size + l % block_size, l being p's local position on the rank"
            " that owns it; start + p in a workspace; -1 on other ranks, for p = -1 and a missing block",
        ),
    ),
    compact_topk_slots.SELECTING,
    "a selected position of a request is read from the slot it was written to",
    ("cumae.gpu_impl:write_topk_to_slots",),
    largest_slots,
)
CHUNKED_CONTEXT = Operation(
    "chunked_context",
    oracle.chunked_context,
    (
        Output(
            "chunk_starts",
            "int32",
            "chunk_request",
            "chunk j starts at j * chunk_len: workspace_tokens over the "
            "requests with context, in whole blocks; there are ceil(max_context_len / chunk_len) chunks",
        ),
        Output(
            "chunk_lens",
            "int32",
            "chunk_request",
            "the request's tokens from the start of the chunk on, chunk_len at most",
        ),
        Output("chunk_cu_seqlens", "int32", "chunk_start", "the running sum of chunk_lens in each chunk"),
        Output("chunk_totals", "int32", "chunk", "the sum of chunk_lens in the chunk"),
        Output("chunk_maxima", "int32", "chunk", "the longest of chunk_lens in the chunk"),
    ),
    frozenset({"key_scope", "context_slack", "workspace"}),
    "every request's cached context is cut at the same places: chunk j begins at j * chunk_len",
    ("cumae.gpu_impl:write_chunked_context",),
)
LOCAL_LENS = Operation(
    "local_lens",
    oracle.local_lens,
    (
        Output(
            "local_lens", "int32", "request", "the positions below seq_len that the rank holds, 0 on padding"
        ),
        Output(
            "rank_lens",
            "int32",
            "request",
            "the positions below seq_len that each rank holds, 0 on padding",
            shape=lambda case: (case.num_requests_padded, case.batch.world),
        ),
    ),
    frozenset({"world", "rank", "interleave"}),
    "runs of `interleave` positions go round the ranks; a rank holds the positions of its runs",
    ("cumae.gpu_impl:write_local_lens",),
    unattended="the keys of a rank follow from its slots; no path of attention here asks for their number",
)
GROUPED_TOPK = router()

_OTHERS = (
    allocate_slots,
    cache_groups,
    compact_topk_slots,
    cut_sequences,
    draft_steps,
    page_read,
    page_write,
    pages,
    plans,
    schedules,
)
_HOMES = (globals(), *map(vars, _OTHERS))
_ROWS = {row.name: row for home in _HOMES for row in [*home.values()] if isinstance(row, Operation)}
OPERATIONS = {name: _ROWS[name] for name in oracle.OPERATIONS}
"""The rows, in the order of the oracles."""


def operation_named(operation: str | Operation) -> Operation:
    """Return an operation, or the one of a name. Raises ``ValueError`` for an unknown name."""
    if isinstance(operation, Operation):
        return operation
    require_choice("operation", operation, tuple(OPERATIONS))
    return OPERATIONS[operation]


def shipped_kernels(operation: str | None = None) -> list[tuple[str, str]]:
    """Return each Triton kernel that is shipped for an operation, or for all, with the operation's name."""
    names = [operation] if operation else list(OPERATIONS)
    return [(kernel, name) for name in names for kernel in OPERATIONS[name].kernels]
