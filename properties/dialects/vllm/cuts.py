"""vLLM's names for chunks of linear attention and Mamba, and for flattened decodes."""

from collections.abc import Callable
from typing import Any

from cumae.oracle import Case, Inputs, SequenceChunks, sequence_chunks
from cumae.properties.dialects.chunk_lists import CHUNK_INPUTS, CHUNK_OUTPUTS
from cumae.properties.dialects.output import Output


def _absolute(case: Case) -> SequenceChunks:
    """Return the chunks of Mamba, which end at multiples of the position."""
    scoped = Case(case.batch, case.layout, case.options.having(absolute_chunks=True))
    found: SequenceChunks = Inputs(scoped).call(sequence_chunks)
    return found


def _seq_idx(case: Case) -> list[int]:
    return [b for b in _absolute(case).chunk_sequences if b >= 0]


def _cu_chunk_seqlen(case: Case) -> list[int]:
    """Return the first row of each chunk, and the number of rows."""
    size, starts, first = case.options.chunks.chunk_size, Inputs(case)["cu_seqlens_q"], list[int]()
    chunks = _absolute(case)
    for b, number in zip(chunks.chunk_sequences, chunks.chunk_numbers, strict=True):
        if b >= 0:
            skipped = case.batch.requests[b].context_len % size if number else 0
            first.append(starts[b] + number * size - skipped)
    return [*first, case.batch.num_tokens]


def _last_chunk_indices(case: Case) -> list[int]:
    """Return the last chunk up to the end of each request."""
    return [stop - 1 for stop in _absolute(case).chunk_offsets[1 : len(case.batch.requests) + 1]]


def _of_mamba(name: str, values: Callable[[Case], list[int]], axis: str = "") -> Output:
    def expect(_: Any, inputs: Inputs) -> list[int]:
        return values(inputs.case)

    return Output(
        name,
        "int32",
        axis or "cut",
        "chunks hold rows of one request and end at multiples of chunk_size of the position",
        follows="chunk_sequences",
        shape=lambda case: (len(values(case)),),
        expect=expect,
        settles={"absolute_chunks": True},
        is_captured=False,
    )


CUT_INPUTS = CHUNK_INPUTS
CUT_OUTPUTS = {
    "sequence_chunks": (
        *CHUNK_OUTPUTS,
        _of_mamba("seq_idx", _seq_idx),
        _of_mamba("cu_chunk_seqlen", _cu_chunk_seqlen),
        _of_mamba("last_chunk_indices", _last_chunk_indices, "live_request"),
    ),
    "flat_decodes": (
        Output("decode_seq_lens", follows="key_lens"),
        Output("sparse_seqlen", follows="selected_lens", is_captured=False),
        Output("paged_kv_indptr", follows="selected_indptr", is_captured=False),
    ),
}
