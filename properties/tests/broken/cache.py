"""Oracles of the cache after new rows that are wrong on purpose."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import UNTOUCHED, CacheWrite, cache_write


def a_negative_slot_counts_from_the_end(
    slot_mapping: Sequence[int], num_new_rows: int, num_cache_slots: int
) -> CacheWrite:
    """Return what an index of Python's own writes."""
    cache: list[Any] = [UNTOUCHED] * num_cache_slots
    for row, slot in enumerate(slot_mapping[:num_new_rows]):
        if num_cache_slots:
            cache[slot] = ("new", row)
    return CacheWrite(cache)


def rows_without_a_slot_are_not_counted(
    slot_mapping: Sequence[int], num_new_rows: int, num_cache_slots: int
) -> CacheWrite:
    """Return what is written where rows of other ranks are taken for missing ones."""
    kept = [slot for slot in slot_mapping[:num_new_rows] if slot >= 0]
    return cache_write(kept, num_new_rows, num_cache_slots)
