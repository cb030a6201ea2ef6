"""The names that SGLang's MLA backends add to its dialect: selected tokens, chunks of cached prefixes."""

from typing import Any

from cumae.oracle import GARBAGE, Case, ChunkedContext, Inputs, chunked_context
from cumae.properties.dialects.chunk_outputs import ChunkOutputs
from cumae.properties.dialects.dialect import Input, held_ints, host_number
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.sglang.step import (
    extend_prefix_lens,
    forward_mode,
    num_rows,
    page_table_1,
)


def _topk_indices(inputs: Inputs) -> Ints:
    """Return selected positions inside each row's request; an extend does not read padding rows."""
    case = inputs.case
    topk, live = case.options.selection.topk, inputs["selected_positions"][: case.batch.num_tokens]
    own = inputs["position_ids"]
    rows = [[p if p <= own[t] else -1 for p in row] for t, row in enumerate(live)]
    unread = GARBAGE if forward_mode(case.batch) == "extend" else -1
    rows += [[unread] * topk] * (num_rows(case) - len(rows))
    return ints(rows, "int32", case.layout.garbage, width=topk)


def _selected_slots(answer: Any, inputs: Inputs) -> list[Any]:
    case, topk = inputs.case, inputs.case.options.selection.topk
    live: list[Any] = answer.selected_slots[: case.batch.num_tokens * topk]
    return live + [-1] * (num_rows(case) * topk - len(live))


def _chunk_capacity(case: Case) -> int:
    """Return the most tokens of a chunk: some blocks for each request, and the remainder."""
    each = case.options.workspace.chunk_blocks * case.batch.block_size
    return max(case.num_requests_padded, 1) * each + case.options.workspace.workspace_slack


def _prefix_chunk_len(case: Case) -> int:
    """Return each request's equal share of a chunk's tokens; requests without a prefix get one too."""
    return _chunk_capacity(case) // max(case.num_requests_padded, 1)


def _chunks(case: Case) -> ChunkedContext:
    """Return chunks of SGLang's length: the oracle's for a workspace of exactly that size."""
    lens = extend_prefix_lens(case)
    room = _prefix_chunk_len(case) * sum(length > 0 for length in lens)
    return chunked_context(lens, [True] * len(lens), room, block_size=1, max_context_len=max(lens, default=0))


_CHUNKS = ChunkOutputs(_chunks, lambda case: case.num_requests_padded)


INPUTS = {
    "topk_indices": Input(_topk_indices, ("selected_first", "selects_fewer", "selection_order", "topk")),
    "page_table_1": Input(page_table_1),
    "batch_size": host_number(lambda case: case.num_requests_padded),
    "chunk_capacity": host_number(_chunk_capacity, "workspace"),
    "prefix_chunk_len": host_number(_prefix_chunk_len, "workspace"),
    "num_prefix_chunks": host_number(_CHUNKS.count, "workspace"),
    "extend_prefix_lens_cpu": held_ints("int32", lambda inputs: extend_prefix_lens(inputs.case)),
    "extend_seq_lens_cpu": held_ints("int32", lambda inputs: inputs["query_lens"]),
}
OUTPUTS = {
    "topk_to_slots": (
        Output(
            "result",
            follows="selected_slots",
            shape=lambda case: (num_rows(case), case.options.selection.topk),
            expect=_selected_slots,
            is_captured=False,
        ),
    ),
    "chunked_context": (
        _CHUNKS.each_request("prefix_chunk_starts", "chunk_starts"),
        _CHUNKS.each_request("prefix_chunk_seq_lens", "chunk_lens"),
        _CHUNKS.each_request("prefix_chunk_cu_seq_lens", "chunk_cu_seqlens", 1),
        _CHUNKS.each("prefix_chunk_num_tokens", "chunk_totals"),
        _CHUNKS.each("prefix_chunk_max_seq_lens", "chunk_maxima"),
    ),
}
