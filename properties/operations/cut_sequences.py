"""Sequences cut along their tokens: into chunks of rows, and into decodes of one token."""

from cumae import oracle
from cumae.oracle import Case
from cumae.properties.dialects import Output
from cumae.properties.operations.operation import Operation


def _entries(case: Case) -> tuple[int, ...]:
    return (case.max_sequence_chunks,)


SEQUENCE_CHUNKS = Operation(
    "sequence_chunks",
    oracle.sequence_chunks,
    (
        Output(
            "chunk_sequences",
            "int32",
            "sequence_chunk",
            "the request whose rows the chunk holds, empty requests counted; -1 behind the last chunk",
            shape=_entries,
        ),
        Output(
            "chunk_numbers",
            "int32",
            "sequence_chunk",
            "the number of the chunk within its request, from 0; 0 behind the last chunk",
            shape=_entries,
        ),
        Output(
            "chunk_offsets",
            "int64",
            "request_start",
            "the running sum of the chunks; padding repeats the total",
        ),
    ),
    frozenset({"chunk_size", "absolute_chunks"}),
    "the rows of a request are cut every chunk_size rows, or at multiples of chunk_size of the position",
    ("cumae.gpu_impl:write_sequence_chunks",),
    unattended="linear attention and convolutions read chunks; softmax attention has no use for them",
)
FLAT_DECODES = Operation(
    "flat_decodes",
    oracle.flat_decodes,
    (
        Output("key_lens", "int32", "token", "the position plus one, 0 on padding"),
        Output("selected_lens", "int32", "token", "min(key_len, topk), 0 on padding"),
        Output(
            "selected_indptr",
            "int32",
            "token_start",
            "the running sum of selected_lens; padding repeats the total",
        ),
    ),
    frozenset({"topk"}),
    "token i of a request sees context_len + i + 1 keys and selects topk of them at most",
    ("cumae.gpu_impl:write_flat_decodes",),
)
