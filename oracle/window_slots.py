"""The cache slots of the keys in each token's window, in the rows that sparse attention reads."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import INT32_MAX, require, require_int
from cumae.oracle.slot_mapping import slots_between


class WindowSlots(NamedTuple):
    """int32: ``window_slots`` [T * window_columns], token after token, -1 for none; ``window_lens`` [T]."""

    window_slots: list[int]
    window_lens: list[int]


def window_slots(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    block_size: int,
    window: int,
    window_columns: int,
) -> WindowSlots:
    """Return the slots of the positions in each token's window, and how many positions there are.

    ``token_to_request`` int32 [T], -1 on padding; ``position_ids`` int64 [T]; ``row_index`` int [R]: the row
    of ``block_table`` int [rows, width] that lists the request's blocks of ``block_size`` tokens, -1 for
    none. A token at position p sees the last ``window`` positions up to p, its own included; with a window of
    0 as many as a row has columns. ``window_columns`` of a row are at least ``window``.

    Positions stand in ascending order, and -1 follows them to the end of the row. The slot is also -1 for a
    request whose row is -1, a column past the table's width and an entry of -1: such a position keeps its
    place and counts. Padding rows hold -1 and the length 0.

    Raises ``ValueError`` for fewer columns than the window, and for a slot beyond int32.
    Sources: vLLM's ``_compute_swa_indices_and_lens_kernel``; SGLang's ``build_causal_swa_page_indices``
    lists the positions in descending order.

    >>> table = [[7, 3], [], [5]]
    >>> rows = window_slots([0, 0, 2, -1], [4, 5, 0, 0], table, [0, 1, 2], 4, window=2, window_columns=3)
    >>> rows.window_slots
    [31, 12, -1, 12, 13, -1, 20, -1, -1, -1, -1, -1]
    >>> rows.window_lens
    [2, 2, 1, 0]
    """
    require_int("block_size", block_size, 1)
    require_int("window", window, 0)
    require_int("window_columns", window_columns, max(window, 1))
    found = WindowSlots([], [])
    for owner, last in zip(token_to_request, position_ids, strict=True):
        row: list[int] = []
        if owner >= 0:
            block_ids = block_table[row_index[owner]] if row_index[owner] >= 0 else []
            first = max(last + 1 - (window or window_columns), 0)
            row = slots_between(block_ids, first, last + 1, block_size)
        highest = max(row, default=-1)
        require(highest <= INT32_MAX, "slot", highest, f"be <= {INT32_MAX}")
        found.window_slots.extend(row + [-1] * (window_columns - len(row)))
        found.window_lens.append(len(row))
    return found
