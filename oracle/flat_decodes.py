"""A step of several tokens a request, flattened: each token is a decode of its own."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import require_int


class FlatDecodes(NamedTuple):
    """int32: ``key_lens`` [T]; ``selected_lens`` [T], at most topk; ``selected_indptr`` [T+1], their sum."""

    key_lens: list[int]
    selected_lens: list[int]
    selected_indptr: list[int]


def flat_decodes(
    cu_seqlens_q: Sequence[int],
    context_lens: Sequence[int],
    num_requests: int,
    num_tokens_padded: int,
    topk: int,
) -> FlatDecodes:
    """Return how many keys each token sees, how many of them it selects, and the running sum of those.

    ``cu_seqlens_q`` int [R+1]: the rows of each request; ``context_lens`` int [R] in tokens;
    ``num_requests``: the live ones, which stand first. A token sees its request's keys up to its own.

    Padding: 0 in both lengths, and ``selected_indptr`` repeats the total. Sources: vLLM's
    ``_indexer_decode_metadata_kernel`` and ``generate_sparse_seqlen_triton``; SGLang's
    ``seqlens_expand_triton``.

    >>> flat_decodes([0, 2, 2, 3], [3, 0, 1], num_requests=3, num_tokens_padded=4, topk=4)
    FlatDecodes(key_lens=[4, 5, 2, 0], selected_lens=[4, 4, 2, 0], selected_indptr=[0, 4, 8, 10, 10])
    """
    require_int("num_requests", num_requests, 0, len(context_lens))
    require_int("topk", topk, 1)
    found = FlatDecodes([], [], [0])
    for b in range(num_requests):
        for i in range(cu_seqlens_q[b + 1] - cu_seqlens_q[b]):
            key_len = context_lens[b] + i + 1
            found.key_lens.append(key_len)
            found.selected_lens.append(min(key_len, topk))
    while len(found.key_lens) < num_tokens_padded:
        found.key_lens.append(0)
        found.selected_lens.append(0)
    for selected_len in found.selected_lens:
        found.selected_indptr.append(found.selected_indptr[-1] + selected_len)
    return found
