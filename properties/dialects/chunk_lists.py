"""Lists of the chunks of a step's sequences, as the copies of flash-linear-attention hold them."""

from typing import Any

from cumae.oracle import Case, Inputs, sequence_chunks
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.output import Output


def num_chunks(case: Case) -> int:
    """Return the chunks of a step, cut every ``chunk_size`` rows."""
    offsets: list[int] = Inputs(case).call(sequence_chunks).chunk_offsets
    return offsets[-1]


def _pairs(answer: Any, inputs: Inputs) -> list[int]:
    pairs = zip(answer.chunk_sequences, answer.chunk_numbers, strict=True)
    return [entry for pair in pairs if pair[0] >= 0 for entry in pair]


CHUNK_INPUTS = {
    "chunk_size": Input(lambda inputs: inputs.case.options.chunks.chunk_size, ("chunk_size",)),
    "num_chunks": Input(lambda inputs: num_chunks(inputs.case)),
}
CHUNK_INDICES = Output(
    "chunk_indices",
    axis="chunk_pair",
    follows="chunk_sequences",
    rule="a row of (sequence, number of the chunk within it) for each chunk, empty sequences counted",
    shape=lambda case: (num_chunks(case), 2),
    expect=_pairs,
    is_captured=False,
)
"""int32 [chunks, 2], without padding."""
CHUNK_OUTPUTS = (CHUNK_INDICES, Output("chunk_offsets", is_captured=False))
