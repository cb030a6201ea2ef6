"""Oracles of gathered keys and values that are wrong on purpose."""

from collections.abc import Sequence

from cumae.oracle import PageOrder, PageRead, page_read


def first_keys_of_the_window(
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
    """As many keys as the window has, but the oldest."""
    lens = [min(length, window) if window else length for length in seq_lens]
    sizes = (read_capacity, num_heads, key_units, value_units, units_per_group)
    return page_read(block_table, row_index, lens, num_requests, block_size, *sizes, page_order)


def rows_without_gaps(
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
    """A request without a table row has no key rows, so those behind it move up."""
    rows = [*row_index[:num_requests], *[0] * (len(seq_lens) - num_requests)]
    kept = [0 if row < 0 else length for row, length in zip(rows, seq_lens, strict=True)]
    sizes = (read_capacity, num_heads, key_units, value_units, units_per_group)
    return page_read(block_table, row_index, kept, num_requests, block_size, *sizes, page_order, window)
