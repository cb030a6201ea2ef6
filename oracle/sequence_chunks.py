"""Sequences cut into chunks of rows, as linear attention and convolutions compute them."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import require, require_int


class SequenceChunks(NamedTuple):
    """int32 [N]: ``chunk_sequences``, ``chunk_numbers``; int64 [R+1]: ``chunk_offsets``."""

    chunk_sequences: list[int]
    chunk_numbers: list[int]
    chunk_offsets: list[int]


def sequence_chunks(
    cu_seqlens_q: Sequence[int],
    chunk_context_lens: Sequence[int] | None,
    num_requests: int,
    chunk_size: int,
    max_sequence_chunks: int,
) -> SequenceChunks:
    """Return the sequence of each chunk, its number within the sequence, and where a sequence's chunks begin.

    ``cu_seqlens_q`` int [R+1]: the rows of each sequence; ``num_requests``: the live ones, which stand first;
    ``chunk_size`` in rows; ``max_sequence_chunks``: rows of the list of chunks (N). Chunks are counted from
    the first row of the sequence; with ``chunk_context_lens`` int [R], in tokens, they end at multiples of
    ``chunk_size`` of the position instead, so the first may be short. A sequence without rows has no chunk,
    and the next sequence keeps its own index.

    Padding: entries past the last chunk are -1 in ``chunk_sequences`` (none) and 0 in ``chunk_numbers``;
    ``chunk_offsets`` repeat the total.

    Raises ``ValueError`` if there are more chunks than entries. Sources: ``prepare_chunk_indices_static`` and
    ``prepare_chunk_offsets`` of fla; ``_compute_chunk_metadata`` of vLLM (chunks of positions).

    >>> sequence_chunks([0, 2, 2, 5], None, num_requests=3, chunk_size=2, max_sequence_chunks=4)
    SequenceChunks(chunk_sequences=[0, 2, 2, -1], chunk_numbers=[0, 0, 1, 0], chunk_offsets=[0, 1, 1, 3])
    >>> sequence_chunks([0, 2, 2, 5], [3, 0, 4], num_requests=3, chunk_size=4, max_sequence_chunks=3)
    SequenceChunks(chunk_sequences=[0, 0, 2], chunk_numbers=[0, 1, 0], chunk_offsets=[0, 2, 2, 3])
    """
    require_int("num_requests", num_requests, 0, len(cu_seqlens_q) - 1)
    require_int("chunk_size", chunk_size, 1)
    found = SequenceChunks([], [], [0])
    for b in range(len(cu_seqlens_q) - 1):
        number = -1
        for row in range(cu_seqlens_q[b], cu_seqlens_q[b + 1] if b < num_requests else 0):
            place = row - cu_seqlens_q[b]
            if chunk_context_lens is not None:
                place += chunk_context_lens[b]
            if number < 0 or place % chunk_size == 0:
                number += 1
                found.chunk_sequences.append(b)
                found.chunk_numbers.append(number)
        found.chunk_offsets.append(len(found.chunk_sequences))
    num_chunks = len(found.chunk_sequences)
    require(num_chunks <= max_sequence_chunks, "chunks", num_chunks, f"be <= {max_sequence_chunks} entries")
    while len(found.chunk_sequences) < max_sequence_chunks:
        found.chunk_sequences.append(-1)
        found.chunk_numbers.append(0)
    return found
