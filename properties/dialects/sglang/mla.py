"""What SGLang's MLA backends add to its dialect: selected tokens, and the chunks of cached prefixes."""

from collections.abc import Callable
from typing import Any

from cumae.oracle import GARBAGE, Case, ChunkedContext, Inputs, chunked_context
from cumae.properties.dialects.dialect import Input, NamedOutput
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.dialects.sglang.step import (
    extend_prefix_lens,
    forward_mode,
    num_rows,
    page_table_1,
)


def _topk_indices(inputs: Inputs) -> Ints:
    """No row selects what its request does not have; an extend reads no row of padding."""
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
    """Return the tokens that a chunk may have: blocks for each request, and what is left over."""
    each = case.options.workspace.chunk_blocks * case.batch.block_size
    return max(case.num_requests_padded, 1) * each + case.options.workspace.workspace_slack


def _prefix_chunk_len(case: Case) -> int:
    """Return the tokens of a chunk: the same share for every request, one without prefix included."""
    return _chunk_capacity(case) // max(case.num_requests_padded, 1)


def _chunks(case: Case) -> ChunkedContext:
    """Return chunks of the length that SGLang takes: the oracle's of a workspace with just that room."""
    lens = extend_prefix_lens(case)
    room = _prefix_chunk_len(case) * sum(length > 0 for length in lens)
    return chunked_context(lens, [True] * len(lens), room, block_size=1, max_context_len=max(lens, default=0))


def _num_chunks(case: Case) -> int:
    return len(_chunks(case).chunk_totals)


def _chunked(name: str, axis: str, more: int | None = None) -> NamedOutput:
    """Return an output with an entry for each chunk; rows of one for each request, and ``more``."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        values: list[Any] = getattr(_chunks(inputs.case), name)
        return values

    def width(case: Case) -> int:
        return case.num_requests_padded + (more or 0)

    return NamedOutput(
        "int32",
        lambda inputs: _num_chunks(inputs.case),
        expect,
        axis,
        width=None if more is None else width,
        is_captured=False,
    )


def _host(value: Callable[[Case], int], *carries: str) -> Input:
    return Input(lambda inputs: value(inputs.case), carries)


def _on_host(values: Callable[[Inputs], list[int]]) -> Input:
    return Input(lambda inputs: ints(values(inputs), "int32", inputs.case.layout.garbage))


INPUTS = {
    "topk_indices": Input(_topk_indices, ("topk",)),
    "page_table_1": Input(page_table_1),
    "batch_size": _host(lambda case: case.num_requests_padded),
    "chunk_capacity": _host(_chunk_capacity, "workspace"),
    "prefix_chunk_len": _host(_prefix_chunk_len, "workspace"),
    "num_prefix_chunks": _host(_num_chunks, "workspace"),
    "extend_prefix_lens_cpu": _on_host(lambda inputs: extend_prefix_lens(inputs.case)),
    "extend_seq_lens_cpu": _on_host(lambda inputs: inputs["query_lens"]),
}
OUTPUTS = {
    ("topk_to_slots", "result"): NamedOutput(
        "int32",
        lambda inputs: num_rows(inputs.case),
        _selected_slots,
        "selected_key",
        width=lambda case: case.options.selection.topk,
        is_captured=False,
    ),
    ("chunked_context", "prefix_chunk_starts"): _chunked("chunk_starts", "chunk_request", 0),
    ("chunked_context", "prefix_chunk_seq_lens"): _chunked("chunk_lens", "chunk_request", 0),
    ("chunked_context", "prefix_chunk_cu_seq_lens"): _chunked("chunk_cu_seqlens", "chunk_start", 1),
    ("chunked_context", "prefix_chunk_num_tokens"): _chunked("chunk_totals", "chunk"),
    ("chunked_context", "prefix_chunk_max_seq_lens"): _chunked("chunk_maxima", "chunk"),
}
