"""The range of keys that each prefill token of the step may attend to."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.context_parallel import local_len
from cumae.oracle.model.option_groups import KeyScope


class CausalWindows(NamedTuple):
    """``ks``, ``ke`` int32 [T]: token t attends to rows ``[ks[t], ke[t])`` of the key buffer."""

    ks: list[int]
    ke: list[int]


def causal_windows(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    num_tokens_padded: int,
    key_scope: KeyScope = "all",
    compress_ratio: int = 1,
    window: int = 0,
    world: int = 1,
    rank: int = 0,
    interleave: int = 1,
) -> CausalWindows:
    """Return the half-open window of each token over keys stored request after request.

    ``context_lens``, ``query_lens`` int [R] in tokens; ``is_prefill`` bool [R], not read where a
    request has no token. The key buffer has room for ``seq_len // compress_ratio`` rows of every request
    in ``key_scope``. A prefill token sees every key row that is complete at its position. With ``window`` it
    sees only its last ``window`` keys, its own included. With ``world > 1`` the complete rows are dealt out
    to the ranks: those of ``rank`` stand first in the room of their request, and a token sees those of them
    that it would see without ranks.

    Decode tokens and padding hold (0, 0). Sources: FastDeploy#7598 (key and query offsets mixed
    up), vllm#3385 (window off by one), vllm#51252 (compressed rows).

    >>> causal_windows([3, 0, 2], [2, 0, 2], [True, True, True], num_tokens_padded=5)
    CausalWindows(ks=[0, 0, 5, 5, 0], ke=[4, 5, 8, 9, 0])
    >>> causal_windows([6], [3], [True], num_tokens_padded=3, window=4, world=2, rank=1)
    CausalWindows(ks=[1, 2, 2], ke=[3, 4, 4])
    """
    ks: list[int] = []
    ke: list[int] = []
    first_key = 0
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        seq_len = context_len + query_len
        if seq_len == 0:
            continue
        for i in range(query_len):
            num_visible = context_len + i + 1
            if not is_prefill[b]:
                ks.append(0)
                ke.append(0)
                continue
            num_complete = num_visible // compress_ratio
            num_skipped = num_visible - window if 0 < window < num_visible else 0
            ks.append(first_key + local_len(num_skipped, world, rank, interleave))
            ke.append(first_key + local_len(num_complete, world, rank, interleave))
        if key_scope == "all" or is_prefill[b]:
            first_key += seq_len // compress_ratio
    padding = [0] * (num_tokens_padded - len(ks))
    return CausalWindows(ks + padding, ke + padding)
