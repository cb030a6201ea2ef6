"""The position of each token of the step within its request."""

from collections.abc import Sequence
from typing import NamedTuple


class PositionIds(NamedTuple):
    """``position_ids`` int64 [T]."""

    position_ids: list[int]


def position_ids(
    context_lens: Sequence[int], query_lens: Sequence[int], num_tokens_padded: int
) -> PositionIds:
    """Return the position of each token; the new tokens of a request follow its cached context.

    ``context_lens``, ``query_lens`` int [R] in tokens, 0 for padded requests. Padding rows hold 0.
    Source: FastDeploy#7727 (the positions of a chunk after a cached prefix began at 0).

    >>> position_ids([4, 0, 1], [3, 0, 2], num_tokens_padded=6)
    PositionIds(position_ids=[4, 5, 6, 1, 2, 0])
    """
    positions: list[int] = []
    for context_len, query_len in zip(context_lens, query_lens, strict=True):
        positions.extend(range(context_len, context_len + query_len))
    padding = num_tokens_padded - len(positions)
    return PositionIds(positions + [0] * padding)
