"""Values for each chunk of a step's sequences; chunks that end at multiples of the row of the step."""

from collections.abc import Callable

from cumae.oracle import Case, Inputs, sequence_chunks
from cumae.properties.dialects import Output

OF_ROWS = "chunks hold rows of one request and end at multiples of chunk_size of the row"


def chunks_of_rows(case: Case) -> list[tuple[int, int]]:
    """Return the request and the first row of each chunk, by the oracle of chunks of positions."""
    starts, size = Inputs(case)["cu_seqlens_q"], case.options.chunks.chunk_size
    found = sequence_chunks(starts, starts[:-1], len(case.batch.requests), size, case.batch.num_tokens)
    pairs = zip(found.chunk_sequences, found.chunk_numbers, strict=True)
    return [(b, max((starts[b] // size + k) * size, starts[b])) for b, k in pairs if b >= 0]


def of_chunks(name: str, rule: str, values: Callable[[Case], list[int]], axis: str = "cut") -> Output:
    """Return an int32 output of as many values as this function gives."""
    return Output(
        name,
        "int32",
        axis,
        rule,
        follows="chunk_sequences",
        shape=lambda case: (len(values(case)),),
        expect=lambda _, inputs: values(inputs.case),
    )
