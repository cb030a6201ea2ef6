"""Cached contexts, cut into chunks that fit a workspace; a chunk has the same length in every request."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.option_groups import KeyScope
from cumae.oracle.model.rules import require, require_int


class ChunkedContext(NamedTuple):
    """int32, chunk after chunk: ``chunk_starts``, ``chunk_lens`` [C * R]; ``chunk_cu_seqlens`` [C * (R+1)].

    ``chunk_totals``, ``chunk_maxima`` int32 [C]: the sum and the maximum of ``chunk_lens`` in each chunk.
    """

    chunk_starts: list[int]
    chunk_lens: list[int]
    chunk_cu_seqlens: list[int]
    chunk_totals: list[int]
    chunk_maxima: list[int]


def chunked_context(
    context_lens: Sequence[int],
    is_prefill: Sequence[bool],
    workspace_tokens: int,
    block_size: int,
    max_context_len: int,
    key_scope: KeyScope = "all",
) -> ChunkedContext:
    """Return the part of each request's context that each chunk holds.

    ``context_lens`` int [R] in tokens, 0 for padded requests; ``is_prefill`` bool [R], not read where a
    request has no context; ``workspace_tokens``: rows that one chunk of all requests may fill;
    ``max_context_len``: the host's upper bound on the contexts, which sets the number of chunks. Requests
    outside ``key_scope`` count as requests without context.

    A chunk is ``workspace_tokens // (requests with context)`` tokens, rounded down to whole blocks. In every
    request chunk j starts at j times this length; past the end of the context its length is 0. If no request
    has context, there are no chunks.

    Raises ``ValueError`` if the workspace has no room for one block of each request, or a context is longer
    than the bound. Sources: vLLM's ``MLACommonMetadataBuilder``, sglang#22688 (chunks of length 0).

    >>> chunked_context([5, 0, 2], [True] * 3, workspace_tokens=8, block_size=2, max_context_len=5)._asdict()
    ... # doctest: +NORMALIZE_WHITESPACE
    {'chunk_starts': [0, 0, 0, 4, 4, 4], 'chunk_lens': [4, 0, 2, 1, 0, 0],
     'chunk_cu_seqlens': [0, 4, 4, 6, 0, 1, 1, 1], 'chunk_totals': [6, 1], 'chunk_maxima': [4, 1]}
    """
    require_int("workspace_tokens", workspace_tokens, 0)
    lens: list[int] = []
    for b, context_len in enumerate(context_lens):
        rule = f"be <= max_context_len = {max_context_len}"
        require(context_len <= max_context_len, f"context_lens[{b}]", context_len, rule)
        in_scope = context_len > 0 and (key_scope == "all" or is_prefill[b])
        lens.append(context_len if in_scope else 0)
    num_with_context = sum(length > 0 for length in lens)
    found = ChunkedContext([], [], [], [], [])
    if num_with_context == 0:
        return found
    num_blocks = workspace_tokens // num_with_context // block_size
    rule = f"hold a block of {block_size} tokens of each of {num_with_context} requests"
    require(num_blocks > 0, "workspace_tokens", workspace_tokens, rule)
    chunk_len = num_blocks * block_size
    for start in range(0, max_context_len, chunk_len):
        parts: list[int] = []
        ends = [0]
        for length in lens:
            parts.append(len(range(start, min(start + chunk_len, length))))
            ends.append(ends[-1] + parts[-1])
        found.chunk_starts.extend([start] * len(lens))
        found.chunk_lens.extend(parts)
        found.chunk_cu_seqlens.extend(ends)
        found.chunk_totals.append(ends[-1])
        found.chunk_maxima.append(max(parts))
    return found
