"""The route of chunked context: one workspace of cached keys at a time, then the new keys."""

from cumae.properties.attention.parts import NOBODY, Key, OutOfReach, Part, Rows
from cumae.properties.attention.step import Step, at


def by_chunks(step: Step) -> Rows:
    """Yield for each token of a request in scope its part of every chunk and the new keys up to its own."""
    case = step.case
    longest, starts = (
        step.says("chunked_context", "chunk_maxima"),
        step.says("chunked_context", "chunk_cu_seqlens"),
    )
    rows_of_requests = step.says("sequence_layout", "cu_seqlens_q")
    chunks = [_gathered(step, j) for j in range(case.num_context_chunks)]
    for row, (b, _) in enumerate(step.tokens):
        if case.options.keys.key_scope == "prefill" and step.batch.requests[b].phase == "decode":
            continue
        parts = []
        for j, workspace in enumerate(chunks):
            place = j * (case.num_requests_padded + 1) + b
            first, stop = at(starts, place, "chunk_cu_seqlens"), at(starts, place + 1, "chunk_cu_seqlens")
            stop = min(stop, first + at(longest, j, "chunk_maxima"))
            parts.append(Part([workspace.get(i, NOBODY) for i in range(first, stop)]))
        first = at(rows_of_requests, b, "cu_seqlens_q")
        parts.append(Part([at(step.new_rows, i, "the rows of the step") for i in range(first, row + 1)]))
        yield row, parts


def _gathered(step: Step, j: int) -> dict[int, Key]:
    """Return the workspace with chunk ``j`` of every request, gathered by whole blocks.

    Raises ``OutOfReach`` if a row lies outside the workspace or is gathered twice.
    """
    case = step.case
    lens, starts = step.says("chunked_context", "chunk_lens"), step.says("chunked_context", "chunk_starts")
    total = at(step.says("chunked_context", "chunk_totals"), j, "chunk_totals")
    if total > case.workspace_tokens:
        raise OutOfReach(f"gathers {total} rows into a workspace of {case.workspace_tokens}")
    workspace: dict[int, Key] = {}
    for b in range(case.num_requests_padded):
        place = j * case.num_requests_padded + b
        offset = at(step.says("chunked_context", "chunk_cu_seqlens"), place + j, "chunk_cu_seqlens")
        start, length = at(starts, place, "chunk_starts"), at(lens, place, "chunk_lens")
        if length and start % case.batch.block_size:
            raise OutOfReach(f"gathers chunk {j} of request {b} from position {start}, inside a block")
        for i in range(length):
            if not 0 <= offset + i < total or offset + i in workspace:
                raise OutOfReach(
                    f"gathers row {offset + i} of {total} of chunk {j} twice, or has no such row"
                )
            workspace[offset + i] = step.cached(b, start + i)
    return workspace
