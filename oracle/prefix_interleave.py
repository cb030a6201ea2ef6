"""Where each row of the contiguous key buffer comes from: the paged cache or the new tokens."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.marks import UNTOUCHED, Mark
from cumae.oracle.model.option_groups import KeyScope

Source = tuple[str, int, int] | tuple[str, int] | Mark


class PrefixInterleave(NamedTuple):
    """``keys`` [capacity]: ("cache", block, offset), ("new", row) or UNTOUCHED for each row."""

    keys: list[Source]


def prefix_interleave(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    is_prefill: Sequence[bool],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    capacity: int,
    key_scope: KeyScope = "all",
) -> PrefixInterleave:
    """Return the source of each key row: cached rows first, then new ones, request after request.

    ``context_lens``, ``query_lens`` int [R] in tokens; ``is_prefill`` bool [R], not read where a
    request has no token; ``block_table`` int [>= R, width] in request order. Every request in ``key_scope``
    is expanded, also decodes and requests without a new token. New rows are numbered over all requests.

    Rows behind the last key are ``UNTOUCHED``; keys at or past ``capacity`` are dropped.
    Raises ``ValueError`` if a cached token has no block. Source: FastDeploy#7727.

    >>> prefix_interleave([3, 0, 0], [1, 0, 2], [True] * 3, [[7, 4], [], [6]], 2, capacity=7).keys
    [('cache', 7, 0), ('cache', 7, 1), ('cache', 4, 0), ('new', 0), ('new', 1), ('new', 2), UNTOUCHED]
    """
    keys: list[Source] = []
    new_row = 0
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        if context_len + query_len > 0 and (key_scope == "all" or is_prefill[b]):
            for position in range(context_len):
                block = _block(block_table, b, position // block_size)
                keys.append(("cache", block, position % block_size))
            for i in range(query_len):
                keys.append(("new", new_row + i))
        new_row += query_len
    keys = keys[:capacity]
    return PrefixInterleave(keys + [UNTOUCHED] * (capacity - len(keys)))


def _block(block_table: Sequence[Sequence[int]], b: int, column: int) -> int:
    row = block_table[b]
    if column >= len(row) or row[column] < 0:
        found = row[column] if column < len(row) else None
        raise ValueError(f"block_table[{b}][{column}] = {found}, must hold a block: the token is cached")
    return row[column]
