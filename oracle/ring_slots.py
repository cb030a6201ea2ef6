"""The slot of each token in the ring that a request keeps of its last tokens."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import require_int


class RingSlots(NamedTuple):
    """``ring_slots`` int64 [num_slots]; -1 means that nothing is written."""

    ring_slots: list[int]


def ring_slots(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    ring_capacity: int,
    num_slots: int,
) -> RingSlots:
    """Return the slot of each token in its request's only block, where a later token takes its place.

    ``token_to_request`` int32 [T], -1 on padding; ``position_ids`` int64 [T]; ``row_index`` int [R]: the row
    of ``block_table`` int [rows, width] whose first entry is the request's block, -1 for none. A block holds
    ``ring_capacity`` tokens, whatever the size of other blocks. ``num_slots``: length of the buffer.

    The slot is -1 for a request without a block: a first entry of -1, or of 0, which is the dummy block; a
    table without columns; a row of -1. It is also -1 on padding and from row T to the end of the buffer.
    Sources: vLLM's ``compute_kpool_tail_slot_mapping`` and ``_ring_slot_mapping_kernel``.

    >>> ring_slots([0, 0, 2, -1], [9, 10, 0, 0], [[7, 3], [4], [5]], [0, 1, 2], 4, num_slots=5)
    RingSlots(ring_slots=[29, 30, 20, -1, -1])
    """
    require_int("ring_capacity", ring_capacity, 1)
    require_int("num_slots", num_slots, len(token_to_request))
    slots: list[int] = []
    for owner, position in zip(token_to_request, position_ids, strict=True):
        own_row = row_index[owner] if owner >= 0 else -1
        block_ids = block_table[own_row][:1] if own_row >= 0 else []
        blocks = [block for block in block_ids if block > 0]
        slots.append(blocks[0] * ring_capacity + position % ring_capacity if blocks else -1)
    return RingSlots(slots + [-1] * (num_slots - len(slots)))
