"""How many tokens of each request a context-parallel rank holds."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.context_parallel import local_len
from cumae.oracle.model.rules import require_int


class LocalLens(NamedTuple):
    """int32: ``local_lens`` [R], tokens on this rank; ``rank_lens`` [R * world], tokens on every rank."""

    local_lens: list[int]
    rank_lens: list[int]


def local_lens(
    seq_lens: Sequence[int], num_requests: int, world: int = 1, rank: int = 0, interleave: int = 1
) -> LocalLens:
    """Return the tokens of each request that a rank holds, and those that each of the ranks holds.

    ``seq_lens`` int [R] in tokens, cached and new; ``num_requests``: the live ones, which stand first.
    Runs of ``interleave`` positions go round the ``world`` ranks. Entries of padded requests are 0, whatever
    their length says.

    Raises ``ValueError`` for a rank that is none of the world, and for more live requests than lengths.
    Sources: vLLM's ``get_dcp_local_seq_lens`` and ``prepare_dcp_local_seq_lens``; SGLang's ``get_dcp_lens``.

    >>> local_lens([11, 0, 5], num_requests=3, world=4, rank=1, interleave=2)
    LocalLens(local_lens=[3, 0, 2], rank_lens=[4, 3, 2, 2, 0, 0, 0, 0, 2, 2, 1, 0])
    """
    require_int("world", world, 1)
    require_int("rank", rank, 0, world - 1)
    require_int("interleave", interleave, 1)
    require_int("num_requests", num_requests, 0, len(seq_lens))
    found = LocalLens([], [])
    for b, seq_len in enumerate(seq_lens):
        length = seq_len if b < num_requests else 0
        held = [local_len(length, world, r, interleave) for r in range(world)]
        found.local_lens.append(held[rank])
        found.rank_lens.extend(held)
    return found
