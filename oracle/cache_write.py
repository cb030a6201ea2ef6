"""The cache after the new rows of the step were written to their slots."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cumae.oracle.model.marks import UNTOUCHED
from cumae.oracle.model.rules import require, require_int


class CacheWrite(NamedTuple):
    """``cache``, slot after slot: ``("new", row)``, the new row that it holds, or ``UNTOUCHED``."""

    cache: list[Any]


def cache_write(slot_mapping: Sequence[int], num_new_rows: int, num_cache_slots: int) -> CacheWrite:
    """Return, slot after slot, which new row the cache holds after the step.

    ``slot_mapping`` int64 [N], negative for none; ``num_new_rows`` rows are given: those past N have no slot,
    and a slot past them no row. ``num_cache_slots``: blocks of the cache times their size. How a row is held
    (copied, or quantised by ``fp8_row``) does not matter here.

    Raises ``ValueError`` for a negative number of either, for a slot that the cache does not have, and for
    two rows in one slot.
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
        require(written[slot] is UNTOUCHED, name, slot, "stand once")
        written[slot] = ("new", row)
    return CacheWrite(written)
