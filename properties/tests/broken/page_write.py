"""Oracles of pages that are wrong on purpose."""

from collections.abc import Sequence

from cumae.oracle import PageOrder, PageWrite, page_write


def tokens_before_heads(
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
    """Pages of heads are taken for pages of tokens."""
    order: PageOrder = "NHD" if page_order == "HND" else page_order
    sizes = (num_cache_blocks, block_size, num_heads, key_units, value_units, units_per_group)
    return page_write(slot_mapping, num_new_rows, *sizes, order)


def values_in_one_group(
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
    """All tokens of a block are one group of values."""
    order: PageOrder = "packed" if page_order == "shuffled" else page_order
    sizes = (num_cache_blocks, block_size, num_heads, key_units, value_units, units_per_group)
    return page_write(slot_mapping, num_new_rows, *sizes, order)
