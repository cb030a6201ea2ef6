"""Oracles of windows, compressed states and rings that are wrong on purpose."""

from collections.abc import Sequence

from cumae.oracle import (
    CompressedSlots,
    RingSlots,
    WindowSlots,
    compressed_slots,
    ring_slots,
    window_slots,
)

Table = Sequence[Sequence[int]]


def window_without_its_oldest_key(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    block_size: int,
    window: int,
    window_columns: int,
) -> WindowSlots:
    """The token itself is not counted, or counted twice: the window is one key shorter."""
    less = max(window - 1, 1) if window else 0
    return window_slots(
        token_to_request, position_ids, block_table, row_index, block_size, less, window_columns
    )


def positions_without_a_slot_left_out(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    block_size: int,
    window: int,
    window_columns: int,
) -> WindowSlots:
    """The slots that exist move to the front, and only they are counted."""
    right = window_slots(
        token_to_request, position_ids, block_table, row_index, block_size, window, window_columns
    )
    found = WindowSlots([], [])
    for start in range(0, len(right.window_slots), window_columns):
        row = [slot for slot in right.window_slots[start : start + window_columns] if slot >= 0]
        found.window_slots.extend(row + [-1] * (window_columns - len(row)))
        found.window_lens.append(len(row))
    return found


def states_of_tokens_without_a_slot(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    slot_mapping: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    block_size: int,
    compress_ratio: int,
    num_slots: int,
) -> CompressedSlots:
    """A state is written even if its last token is not."""
    own = [max(slot, 0) for slot in slot_mapping]
    return compressed_slots(
        token_to_request, position_ids, own, block_table, row_index, block_size, compress_ratio, num_slots
    )


def states_counted_over_all_ranks(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    slot_mapping: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    block_size: int,
    compress_ratio: int,
    num_slots: int,
) -> CompressedSlots:
    """The place of a state is counted over the whole request and not over the positions of the rank."""
    return compressed_slots(
        token_to_request,
        position_ids,
        slot_mapping,
        block_table,
        row_index,
        block_size,
        compress_ratio,
        num_slots,
    )


def ring_of_a_whole_block(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    block_size: int,
    num_slots: int,
) -> RingSlots:
    """The ring is taken to be as long as a block."""
    return ring_slots(token_to_request, position_ids, block_table, row_index, block_size, num_slots)


def ring_in_the_dummy_block(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    block_table: Table,
    row_index: Sequence[int],
    ring_capacity: int,
    num_slots: int,
) -> RingSlots:
    """Block 0 is taken for a block of its own."""
    right = ring_slots(token_to_request, position_ids, block_table, row_index, ring_capacity, num_slots)
    slots = list(right.ring_slots)
    for t, (owner, position) in enumerate(zip(token_to_request, position_ids, strict=True)):
        row = row_index[owner] if owner >= 0 else -1
        if row >= 0 and block_table[row][:1] == [0]:
            slots[t] = position % ring_capacity
    return RingSlots(slots)
