"""The names that vLLM's MLA backends add to its dialect: selected tokens, chunks of cached context."""

from dataclasses import replace

from cumae.oracle import Case, ChunkedContext, Inputs, chunked_context
from cumae.properties.dialects.chunk_outputs import ChunkOutputs
from cumae.properties.dialects.dialect import Input, host_number
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.dialects.output import Output

SELECTED = ("select_beyond", "selected_first", "selects_fewer", "selection_order", "topk")
"""Features that selected positions show."""


def _token_indices(inputs: Inputs) -> Ints:
    """Return the selected positions; padding rows select nothing, as the indexer clears them first."""
    case = inputs.case
    num_tokens, topk = case.batch.num_tokens, case.options.selection.topk
    rows = inputs["selected_positions"][:num_tokens] + [[-1] * topk] * case.layout.num_padding_tokens
    return ints(rows, "int32", case.layout.garbage, width=topk)


def _workspace(name: str) -> Input:
    def hold(inputs: Inputs) -> Ints | None:
        values = inputs[name]
        return None if values is None else ints(values, "int32", inputs.case.layout.garbage)

    return Input(hold, ("prefill_workspace",))


def _scoped(case: Case) -> Case:
    return replace(case, options=case.options.having(key_scope="prefill"))


def _context_lens(case: Case) -> list[int]:
    return [request.context_len for request in case.batch.requests if request.phase == "prefill"]


def _held_context_lens(inputs: Inputs) -> Ints:
    return ints(_context_lens(inputs.case), "int32", inputs.case.layout.garbage)


def _topk(case: Case) -> int:
    return case.options.selection.topk


def _longest(case: Case) -> int:
    return max(_context_lens(case), default=0)


def _chunks(case: Case) -> ChunkedContext:
    """Return the chunks of prefill requests alone; none starts at or after the longest context."""
    lens = _context_lens(case)
    is_prefill = [True] * len(lens)
    workspace = _scoped(case).workspace_tokens
    return chunked_context(lens, is_prefill, workspace, case.batch.block_size, _longest(case))


_CHUNKS = ChunkOutputs(_chunks, lambda case: len(_context_lens(case)))


def _selection(name: str, follows: str) -> Output:
    """Return an output with a row for each token: an entry for each position it selects."""

    def shape(case: Case) -> tuple[int, ...]:
        return (case.num_tokens_padded, case.options.selection.topk)

    return Output(name, follows=follows, shape=shape, is_captured=False)


INPUTS = {
    "token_indices": Input(_token_indices, SELECTED),
    "NUM_TOPK_TOKENS": host_number(_topk, "topk"),
    "BLOCK_SIZE": host_number(lambda case: case.batch.block_size),
    "HAS_PREFILL_WORKSPACE": host_number(
        lambda case: case.options.selection.prefill_workspace, "prefill_workspace"
    ),
    "prefill_workspace_request_ids": _workspace("workspace_ids"),
    "prefill_workspace_starts": _workspace("workspace_starts"),
    "dcp_size": host_number(lambda case: case.batch.world, "world"),
    "chunked_prefill_workspace_size": host_number(lambda case: _scoped(case).workspace_tokens, "workspace"),
    "num_prefills_with_context_cpu": host_number(lambda case: _scoped(case).num_with_context),
    "max_context_len_cpu": host_number(_longest),
    "context_lens_cpu": Input(_held_context_lens),
    "context_lens_tensor": Input(_held_context_lens),
}
OUTPUTS = {
    "topk_to_slots": (_selection("out", "selected_slots"),),
    "compact_topk_slots": (
        _selection("out", "compact_slots"),
        Output("valid_counts", follows="num_valid", is_captured=False),
    ),
    "chunked_context": (
        _CHUNKS.each_request("context_chunk_starts", "chunk_starts"),
        _CHUNKS.each_request("context_chunk_seq_lens", "chunk_lens"),
        _CHUNKS.each_request("context_chunk_cu_seq_lens", "chunk_cu_seqlens", 1),
        _CHUNKS.each("context_chunk_seq_tot", "chunk_totals"),
        _CHUNKS.each("context_chunk_max_seq_lens", "chunk_maxima"),
    ),
}
