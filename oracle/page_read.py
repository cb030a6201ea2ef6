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
    of_pages = _places_by_token(page_order, block_size, num_heads, key_units, value_units, units_per_group)
    units_of_token = num_heads * key_units, num_heads * value_units
    keys: list[Any] = []
    values: list[Any] = []
    num_rows = 0
    for b in range(num_requests):
        first = max(seq_lens[b] - window, 0) if window else 0
        stop = min(seq_lens[b], first + read_capacity - num_rows)
        num_rows += max(stop - first, 0)
        blocks = blocks_of(block_table, row_index[b], 0, -(-seq_lens[b] // block_size))
        for i in range(first // block_size, -(-stop // block_size)):
            begin, end = max(first - i * block_size, 0), min(stop - i * block_size, block_size)
            for of_page, of_token, rows in zip(of_pages, units_of_token, (keys, values), strict=True):
                places = of_page[begin * of_token : end * of_token]
                named = blocks[i] >= 0
                rows += [("page", blocks[i], place) if named else UNTOUCHED for place in places]
    spare = read_capacity - num_rows
    for of_token, rows in zip(units_of_token, (keys, values), strict=True):
        rows += [UNTOUCHED] * (spare * of_token)
    return PageRead(keys, values)


@lru_cache(maxsize=256)
def _places_by_token(
    order: PageOrder, size: int, num_heads: int, key_units: int, value_units: int, group: int
) -> tuple[list[int], list[int]]:
    """Return the places of a page's keys and of its values, by token, head and unit."""
    units = page_units(order, size, num_heads, key_units, value_units, group)
    place_of = {unit: place for place, unit in enumerate(units)}
    pairs = [(token, head) for token in range(size) for head in range(num_heads)]
    return (
        [place_of["key", token, head, unit] for token, head in pairs for unit in range(key_units)],
        [place_of["value", token, head, unit] for token, head in pairs for unit in range(value_units)],
    )
