"""The paged cache after the step has written its new rows to their slots."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cumae.oracle.model.marks import UNTOUCHED
from cumae.oracle.model.rules import require, require_int


class CacheWrite(NamedTuple):
    """``cache``, one entry a slot: ``("new", row)`` where that new row was written, else ``UNTOUCHED``."""

    cache: list[Any]


def cache_write(slot_mapping: Sequence[int], num_new_rows: int, num_cache_slots: int) -> CacheWrite:
    """Return which new row each slot of the cache holds after the step.

    ``slot_mapping`` int64 [N]; a negative slot writes nothing. ``num_new_rows``: rows that are given. Rows
    past N have no slot, and slots past ``num_new_rows`` have no row. ``num_cache_slots``: blocks of the cache
    times their size. The row format (copied, or quantised by ``fp8_row``) does not matter here.

    Raises ``ValueError`` for a negative count, for a slot past the cache, and for two rows in one slot.
    Source: vLLM's ``concat_and_cache_mla``.

    >>> cache_write([3, -1, 0, -1], num_new_rows=3, num_cache_slots=4).cache
    [('new', 2), UNTOUCHED, UNTOUCHED, ('new', 0)]
    """
    require_int("num_new_rows", num_new_rows, 0)
    require_int("num_cache_slots", num_cache_slots, 0)
    written: list[Any] = [UNTOUCHED] * num_cache_slots
    for row, slot in list(enumerate(slot_mapping))[:num_new_rows]:
        if slot < 0:
            continue
        name = f"slot_mapping[{row}]"
        require(slot < num_cache_slots, name, slot, f"be < num_cache_slots = {num_cache_slots}")
        require(written[slot] is UNTOUCHED, name, slot, "occur once")
        written[slot] = ("new", row)
    return CacheWrite(written)
