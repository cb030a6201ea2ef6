"""The keys and values of each request, gathered out of the pages of a cache."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from cumae.oracle.kv_indices import blocks_of
from cumae.oracle.model.heads import PAGE_ORDERS, PageOrder
from cumae.oracle.model.marks import UNTOUCHED
from cumae.oracle.model.rules import require_choice, require_int
from cumae.oracle.page_write import page_units


class PageRead(NamedTuple):
    """One entry a unit, by row, head and unit: ``("page", block, place)`` or ``UNTOUCHED``.

    ``place`` counts the units of the block's page in the order of memory.
    """

    keys: list[Any]
    values: list[Any]


def page_read(
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    block_size: int,
    read_capacity: int,
    num_heads: int,
    key_units: int,
    value_units: int,
    units_per_group: int,
    page_order: PageOrder,
    window: int = 0,
) -> PageRead:
    """Return the source of each unit of the gathered keys and values.

    ``seq_lens`` int [R] in tokens; ``row_index`` int [R]: the row of ``block_table`` int [rows, width] that
    lists the request's blocks of ``block_size`` tokens, -1 for none. ``num_requests``: the live requests,
    which stand first. ``num_heads``, ``key_units``, ``value_units``, ``units_per_group``, ``page_order``: how
    a page holds keys and values, as in ``page_write``.

    A row belongs to a position, or to one of the last ``window`` positions if that is not 0: request after
    request, in order of position, without gaps. Rows of a position without a block, and rows behind the last
    position, are ``UNTOUCHED``; rows at or past ``read_capacity`` are dropped.

    Raises ``ValueError`` for more live requests than lengths, and for groups that ``page_write`` refuses.
    Sources: SGLang's ``_get_k_and_s_triton`` and ``launch_gather_shuffle_5d_to_linear``, vLLM's
    ``cp_mha_gather_cache``, LMDeploy's ``flatten_kv_cache``.

    >>> read = page_read([[7, 3], [], [2]], [0, 1, 2], [3, 0, 1], 3, 2, 5, 1, 1, 1, 1, "NHD")
    >>> read.keys
    [('page', 7, 0), ('page', 7, 1), ('page', 3, 0), ('page', 2, 0), UNTOUCHED]
    >>> read.values
    [('page', 7, 2), ('page', 7, 3), ('page', 3, 2), ('page', 2, 2), UNTOUCHED]
    """
    require_int("block_size", block_size, 1)
    require_int("read_capacity", read_capacity, 0)
    require_int("num_requests", num_requests, 0, len(seq_lens))
    require_choice("page_order", page_order, PAGE_ORDERS)
    places = _places_of_tokens(page_order, block_size, num_heads, key_units, value_units, units_per_group)
    keys: list[Any] = []
    values: list[Any] = []
    num_rows = 0
    for b in range(num_requests):
        first = max(seq_lens[b] - window, 0) if window else 0
        blocks = blocks_of(block_table, row_index[b], 0, -(-seq_lens[b] // block_size))
        for position in range(first, seq_lens[b]):
            if num_rows == read_capacity:
                break
            num_rows += 1
            block, token = blocks[position // block_size], position % block_size
            for of_token, row in zip(places[token], (keys, values), strict=True):
                row += [("page", block, place) if block >= 0 else UNTOUCHED for place in of_token]
    spare = (read_capacity - num_rows) * num_heads
    return PageRead(keys + [UNTOUCHED] * (spare * key_units), values + [UNTOUCHED] * (spare * value_units))


@lru_cache(maxsize=256)
def _places_of_tokens(
    order: PageOrder, size: int, num_heads: int, key_units: int, value_units: int, group: int
) -> list[tuple[list[int], list[int]]]:
    """Return for each token of a page the places of its keys and of its values, by head and unit."""
    units = page_units(order, size, num_heads, key_units, value_units, group)
    place_of = {unit: place for place, unit in enumerate(units)}
    heads, keys, values = range(num_heads), range(key_units), range(value_units)
    return [
        (
            [place_of["key", token, head, unit] for head in heads for unit in keys],
            [place_of["value", token, head, unit] for head in heads for unit in values],
        )
        for token in range(size)
    ]
