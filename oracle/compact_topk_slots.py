"""The slots of each token's selected positions, with the valid slots first."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.fault import Fault
from cumae.oracle.topk_to_slots import topk_to_slots


class CompactTopkSlots(NamedTuple):
    """``compact_slots`` int32 [T * topk], -1 behind the valid slots of a row; ``num_valid`` int32 [T]."""

    compact_slots: list[int]
    num_valid: list[int]


def compact_topk_slots(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    world: int = 1,
    rank: int = 0,
    interleave: int = 1,
    workspace_ids: Sequence[int] | None = None,
    workspace_starts: Sequence[int] | None = None,
) -> CompactTopkSlots:
    """Return the slots of ``topk_to_slots`` with the valid ones (not -1) first in each row, and their number.

    Inputs and errors are those of ``topk_to_slots``. The order of the valid slots is free; here it is the
    order of selection. ``compact_topk_slots_faults`` accepts every order. Source: vLLM's
    ``triton_filter_and_convert_dcp_index``.

    >>> table = [[7, 3], [], [5]]
    >>> compact = compact_topk_slots([0, 2, -1], [[-1, 4, 0], [9, 9, 1], [0, 0, 0]], table, block_size=4)
    >>> compact.compact_slots, compact.num_valid
    ([12, 28, -1, 21, -1, -1, -1, -1, -1], [2, 1, 0])
    """
    slots = topk_to_slots(
        token_to_request,
        selected_positions,
        block_table,
        block_size,
        world,
        rank,
        interleave,
        workspace_ids,
        workspace_starts,
    ).selected_slots
    compact: list[int] = []
    num_valid: list[int] = []
    first = 0
    for positions in selected_positions:
        row = slots[first : first + len(positions)]
        first += len(positions)
        valid = [slot for slot in row if slot >= 0]
        compact += valid
        compact += [-1] * (len(row) - len(valid))
        num_valid.append(len(valid))
    return CompactTopkSlots(compact, num_valid)


def compact_topk_slots_faults(
    right: CompactTopkSlots,
    topk: int,
    compact_slots: Sequence[int] | None = None,
    num_valid: Sequence[int] | None = None,
) -> list[Fault]:
    """Return a sentence for each fault of an answer; either output may be missing.

    ``right``: any right answer. The first ``num_valid`` slots of a row must be its valid slots, in any order,
    each as often as it was selected.

    >>> right = CompactTopkSlots([12, 28, -1, 21, -1, -1], [2, 1])
    >>> compact_topk_slots_faults(right, 3, [28, 12, -1, 21, -1, -1], [2, 1])
    []
    >>> compact_topk_slots_faults(right, 3, [28, 28, -1, 21, -1, 4], [2, 2])  # doctest: +NORMALIZE_WHITESPACE
    ['row 0: the first 2 of compact_slots miss 12 and hold 28 instead',
     'row 1: num_valid is 2, must be 1',
     'row 1: compact_slots[5] is 4, must be -1 behind the first 1']
    """
    faults: list[Fault] = []
    for row, count in enumerate(right.num_valid):
        if num_valid is not None and num_valid[row] != count:
            text = f"row {row}: num_valid is {num_valid[row]}, must be {count}"
            faults.append(Fault(text, row))
        if compact_slots is None:
            continue
        first, stop = row * topk, (row + 1) * topk
        wanted = right.compact_slots[first : first + count]
        found = compact_slots[first : first + count]
        if sorted(found) != sorted(wanted):
            lacks = _few(Counter(wanted) - Counter(found))
            besides = _few(Counter(found) - Counter(wanted))
            text = f"row {row}: the first {count} of compact_slots miss {lacks} and hold {besides} instead"
            faults.append(Fault(text, row))
        for index in range(first + count, stop):
            if compact_slots[index] != -1:
                held = compact_slots[index]
                text = f"row {row}: compact_slots[{index}] is {held}, must be -1 behind the first {count}"
                faults.append(Fault(text, row))
                break
    return faults


def _few(slots: Counter[int]) -> str:
    """Return the first slots as text."""
    each = sorted(slots.elements())
    return ", ".join(map(str, each[:4])) + (", …" if len(each) > 4 else "")
