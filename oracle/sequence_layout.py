"""The ranges of tokens and keys of each request in the flattened step."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.option_groups import KeyScope


class SequenceLayout(NamedTuple):
    """``cu_seqlens_q``, ``cu_seqlens_k`` int32 [R+1]; ``token_to_request`` int32 [T]; maxima int32 [1]."""

    cu_seqlens_q: list[int]
    cu_seqlens_k: list[int]
    token_to_request: list[int]
    max_seqlen_q: list[int]
    max_seqlen_k: list[int]


def sequence_layout(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    num_tokens_padded: int,
    key_scope: KeyScope = "all",
    compress_ratio: int = 1,
    token_padding: int = -1,
    dummy_request: bool = False,
) -> SequenceLayout:
    """Return the offsets of requests, the request of each token and the longest lengths.

    ``context_lens``, ``query_lens`` int [R] in tokens, 0 for padded requests; ``is_prefill`` bool
    [R], not read where a request has no token. ``cu_seqlens_k`` counts rows of the key buffer:
    ``seq_len // compress_ratio`` of every request in ``key_scope``, also of requests without a new token. The
    maxima are in tokens, over requests with a new token.

    Padding: ``cu_seqlens`` repeat their last live value (with ``dummy_request`` the last entry of
    ``cu_seqlens_q`` is ``num_tokens_padded``, sglang#21452); ``token_to_request`` holds
    ``token_padding``. Source: FastDeploy#7727 (cached tokens count among the keys).

    >>> layout = sequence_layout([3, 0, 0], [2, 0, 4], [False, True, True], num_tokens_padded=7)
    >>> layout.cu_seqlens_q, layout.cu_seqlens_k
    ([0, 2, 2, 6], [0, 5, 5, 9])
    >>> layout.token_to_request
    [0, 0, 2, 2, 2, 2, -1]
    >>> layout.max_seqlen_q, layout.max_seqlen_k
    ([4], [5])
    """
    cu_seqlens_q, cu_seqlens_k = [0], [0]
    token_to_request: list[int] = []
    longest_query = longest_seq = 0
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        seq_len = context_len + query_len
        keys = 0
        if seq_len > 0 and (key_scope == "all" or is_prefill[b]):
            keys = seq_len // compress_ratio
        token_to_request += [b] * query_len
        cu_seqlens_q.append(len(token_to_request))
        cu_seqlens_k.append(cu_seqlens_k[-1] + keys)
        if query_len > 0:
            longest_query = max(longest_query, query_len)
            longest_seq = max(longest_seq, seq_len)
    token_to_request += [token_padding] * (num_tokens_padded - len(token_to_request))
    if dummy_request:
        cu_seqlens_q[-1] = num_tokens_padded
    return SequenceLayout(cu_seqlens_q, cu_seqlens_k, token_to_request, [longest_query], [longest_seq])
