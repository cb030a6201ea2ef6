"""Oracles of chunks and of flattened decodes that are wrong in one way."""

from collections.abc import Sequence

from cumae.oracle import FlatDecodes, SequenceChunks, flat_decodes, sequence_chunks


def sequences_without_empty_ones(
    cu_seqlens_q: Sequence[int],
    chunk_context_lens: Sequence[int] | None,
    num_requests: int,
    chunk_size: int,
    max_sequence_chunks: int,
) -> SequenceChunks:
    """Sequences are numbered by the chunks that begin one, so an empty sequence takes no number."""
    right = sequence_chunks(cu_seqlens_q, chunk_context_lens, num_requests, chunk_size, max_sequence_chunks)
    known = sorted({b for b in right.chunk_sequences if b >= 0})
    return right._replace(chunk_sequences=[known.index(b) if b >= 0 else b for b in right.chunk_sequences])


def chunks_of_rows_alone(
    cu_seqlens_q: Sequence[int], num_requests: int, chunk_size: int, max_sequence_chunks: int
) -> SequenceChunks:
    """Chunks are counted from the first row, whatever the position."""
    return sequence_chunks(cu_seqlens_q, None, num_requests, chunk_size, max_sequence_chunks)


def keys_before_the_step(
    cu_seqlens_q: Sequence[int],
    context_lens: Sequence[int],
    num_requests: int,
    num_tokens_padded: int,
    topk: int,
) -> FlatDecodes:
    """A token sees only the cached keys and its own."""
    lens: list[int] = []
    for b in range(num_requests):
        lens += [context_lens[b] + 1] * (cu_seqlens_q[b + 1] - cu_seqlens_q[b])
    return _of(lens, num_tokens_padded, topk)


def padding_sees_one_key(
    cu_seqlens_q: Sequence[int],
    context_lens: Sequence[int],
    num_requests: int,
    num_tokens_padded: int,
    topk: int,
) -> FlatDecodes:
    """Padding rows see a key, as if they were the first token of a prompt."""
    lens = flat_decodes(cu_seqlens_q, context_lens, num_requests, num_tokens_padded, topk).key_lens
    return _of([max(length, 1) for length in lens], num_tokens_padded, topk)


def _of(key_lens: list[int], num_tokens_padded: int, topk: int) -> FlatDecodes:
    lens = key_lens + [0] * (num_tokens_padded - len(key_lens))
    ends = [0]
    for length in lens:
        ends.append(ends[-1] + min(length, topk))
    return FlatDecodes(lens, [min(length, topk) for length in lens], ends)
