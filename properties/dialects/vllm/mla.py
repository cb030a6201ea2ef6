"""What vLLM's MLA backends add to its dialect: selected tokens, and the chunks of cached context."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cumae.oracle import Case, ChunkedContext, Inputs, chunked_context
from cumae.properties.dialects.dialect import Input, NamedOutput
from cumae.properties.dialects.held import Ints, ints


def _host(value: Callable[[Case], int], *carries: str) -> Input:
    return Input(lambda inputs: value(inputs.case), carries)


def _token_indices(inputs: Inputs) -> Ints:
    """Rows of padding select nothing: the indexer clears them before it writes."""
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
    """Return the chunks of prefill requests, which vLLM has by themselves; no chunk is behind the longest."""
    lens = _context_lens(case)
    is_prefill = [True] * len(lens)
    workspace = _scoped(case).workspace_tokens
    return chunked_context(lens, is_prefill, workspace, case.batch.block_size, _longest(case))


def _num_chunks(inputs: Inputs) -> int:
    return len(_chunks(inputs.case).chunk_totals)


def _chunked(name: str, axis: str, more: int | None = None) -> NamedOutput:
    """Return an output with an entry for each chunk; rows of one for each request, and ``more``."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        values: list[Any] = getattr(_chunks(inputs.case), name)
        return values

    def width(case: Case) -> int:
        return len(_context_lens(case)) + (more or 0)

    return NamedOutput(
        "int32", _num_chunks, expect, axis, width=None if more is None else width, is_captured=False
    )


INPUTS = {
    "token_indices": Input(_token_indices, ("topk",)),
    "NUM_TOPK_TOKENS": _host(_topk, "topk"),
    "BLOCK_SIZE": _host(lambda case: case.batch.block_size),
    "HAS_PREFILL_WORKSPACE": _host(
        lambda case: case.options.selection.prefill_workspace, "prefill_workspace"
    ),
    "prefill_workspace_request_ids": _workspace("workspace_ids"),
    "prefill_workspace_starts": _workspace("workspace_starts"),
    "dcp_size": _host(lambda case: case.batch.world, "world"),
    "chunked_prefill_workspace_size": _host(lambda case: _scoped(case).workspace_tokens, "workspace"),
    "num_prefills_with_context_cpu": _host(lambda case: _scoped(case).num_with_context),
    "max_context_len_cpu": _host(_longest),
    "context_lens_cpu": Input(_held_context_lens),
    "context_lens_tensor": Input(_held_context_lens),
}
OUTPUTS = {
    ("topk_to_slots", "out"): NamedOutput(
        "int32",
        lambda inputs: inputs.case.num_tokens_padded,
        lambda answer, _: answer.selected_slots,
        "selected_key",
        says="selected_slots",
        width=_topk,
        is_captured=False,
    ),
    ("compact_topk_slots", "out"): NamedOutput(
        "int32",
        lambda inputs: inputs.case.num_tokens_padded,
        lambda answer, _: answer.compact_slots,
        "selected_key",
        says="compact_slots",
        width=_topk,
        is_captured=False,
    ),
    ("compact_topk_slots", "valid_counts"): NamedOutput(
        "int32",
        lambda inputs: inputs.case.num_tokens_padded,
        lambda answer, _: answer.num_valid,
        "token",
        says="num_valid",
        is_captured=False,
    ),
    ("chunked_context", "context_chunk_starts"): _chunked("chunk_starts", "chunk_request", 0),
    ("chunked_context", "context_chunk_seq_lens"): _chunked("chunk_lens", "chunk_request", 0),
    ("chunked_context", "context_chunk_cu_seq_lens"): _chunked("chunk_cu_seqlens", "chunk_start", 1),
    ("chunked_context", "context_chunk_seq_tot"): _chunked("chunk_totals", "chunk"),
    ("chunked_context", "context_chunk_max_seq_lens"): _chunked("chunk_maxima", "chunk"),
}
