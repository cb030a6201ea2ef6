"""The pages of a cache of keys and values after the step has written its new rows to their slots."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cumae.oracle.cache_write import cache_write
from cumae.oracle.model.heads import PAGE_ORDERS, PageOrder
from cumae.oracle.model.marks import UNTOUCHED
from cumae.oracle.model.rules import require, require_choice, require_int


class PageWrite(NamedTuple):
    """``pages``, one entry a unit of memory: ``("key", row, head, unit)``, ``("value", …)`` or ``UNTOUCHED``.

    The entry names the new row, its head, and the unit of the head's key or value that stands there.
    """

    pages: list[Any]


def page_write(
    slot_mapping: Sequence[int],
    num_new_rows: int,
    num_cache_blocks: int,
    block_size: int,
    num_heads: int,
    key_units: int,
    value_units: int,
    units_per_group: int,
    page_order: PageOrder,
) -> PageWrite:
    """Return what stands in each unit of the cache after the step, in the order of memory.

    ``slot_mapping`` int64 [N]: slots of the new rows, as for ``cache_write``; a negative slot writes nothing.
    A row has ``num_heads`` keys of ``key_units`` units and as many values of ``value_units``; a unit is a run
    of bytes that no order divides. A page is the memory of a block, and pages follow one another.
    ``page_order`` says what runs fastest in it: read the loops from the outermost inwards.

    - ``NHD``: keys by token and head, then values by token and head.
    - ``HND``: keys by head and token, then values by head and token.
    - ``joined``: by token and head, a key and its value.
    - ``packed``: keys by head, group of ``units_per_group`` units, token, unit; values by head, unit, token.
    - ``shuffled``: keys as in ``packed``; values by head, group of so many tokens, unit, token.

    Raises ``ValueError`` for slots that ``cache_write`` refuses, and for groups that do not divide a key or,
    if ``shuffled``, a block. Sources: vLLM's ``triton_reshape_and_cache_flash`` and its ``diffkv`` form,
    SGLang's ``reshape_and_cache_shuffle_5d`` and ``_set_k_and_s_triton``.

    >>> page_write([1, -1], 2, 1, 2, 1, 1, 1, 1, "NHD").pages
    [UNTOUCHED, ('key', 0, 0, 0), UNTOUCHED, ('value', 0, 0, 0)]
    >>> page_write([1, -1], 2, 1, 2, 1, 1, 1, 1, "joined").pages
    [UNTOUCHED, UNTOUCHED, ('key', 0, 0, 0), ('value', 0, 0, 0)]
    """
    require_int("num_cache_blocks", num_cache_blocks, 0)
    for name, count in (("num_heads", num_heads), ("key_units", key_units), ("value_units", value_units)):
        require_int(name, count, 1)
    require_choice("page_order", page_order, PAGE_ORDERS)
    slots = cache_write(slot_mapping, num_new_rows, num_cache_blocks * block_size).cache
    order = list(page_units(page_order, block_size, num_heads, key_units, value_units, units_per_group))
    pages: list[Any] = []
    for block in range(num_cache_blocks):
        sources = slots[block * block_size : (block + 1) * block_size]
        if sources.count(UNTOUCHED) == block_size:
            pages += [UNTOUCHED] * len(order)
            continue
        pages += [
            UNTOUCHED if sources[offset] is UNTOUCHED else (kind, sources[offset][1], head, unit)
            for kind, offset, head, unit in order
        ]
    return PageWrite(pages)


def page_units(
    order: PageOrder, size: int, num_heads: int, key_units: int, value_units: int, group: int
) -> Iterator[tuple[str, int, int, int]]:
    """Yield kind, token of the block, head and unit of each unit of a page, in the order of memory."""
    kinds = (("key", key_units), ("value", value_units))
    if order == "NHD":
        for kind, units in kinds:
            for token in range(size):
                for head in range(num_heads):
                    for unit in range(units):
                        yield kind, token, head, unit
    elif order == "HND":
        for kind, units in kinds:
            for head in range(num_heads):
                for token in range(size):
                    for unit in range(units):
                        yield kind, token, head, unit
    elif order == "joined":
        for token in range(size):
            for head in range(num_heads):
                for kind, units in kinds:
                    for unit in range(units):
                        yield kind, token, head, unit
    else:
        for head in range(num_heads):
            for units_together in _groups("key_units", key_units, group):
                for token in range(size):
                    for unit in units_together:
                        yield "key", token, head, unit
        together = size if order == "packed" else group
        for head in range(num_heads):
            for tokens in _groups("block_size", size, together):
                for unit in range(value_units):
                    for token in tokens:
                        yield "value", token, head, unit


def _groups(name: str, count: int, size: int) -> list[range]:
    require(size >= 1 and count % size == 0, name, count, f"be a multiple of a group of {size}")
    return [range(first, first + size) for first in range(0, count, size)]
