"""The cache slot into which each token of the step is written."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.context_parallel import local_len, owns


class SlotMapping(NamedTuple):
    """``slot_mapping`` int64 [num_slots]; -1 means that nothing is written."""

    slot_mapping: list[int]


def slot_mapping(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    kernel_block_size: int,
    num_slots: int,
    world: int = 1,
    rank: int = 0,
    interleave: int = 1,
) -> SlotMapping:
    """Return the slot of each token; on a rank, the blocks of a request hold only the positions that it owns.

    ``context_lens``, ``query_lens`` int [R] in tokens; ``row_index`` int [R]: the row of
    ``block_table`` int [rows, width] that lists the request's blocks of ``kernel_block_size``
    tokens. ``num_slots``: length of the buffer.

    The slot is -1 for a token of another rank, a request whose row is -1, a column past the table's width and
    an entry of -1, and from the true token count to the end of the buffer.
    Sources: vllm#36580 (padding), vllm#54296 (columns), FastDeploy#7367 (64-bit product).

    >>> table = [[7, 3], [5, 9]]
    >>> slot_mapping([3, 0, 0], [2, 0, 3], table, [1, -1, 0], kernel_block_size=4, num_slots=6)
    SlotMapping(slot_mapping=[23, 36, 28, 29, 30, -1])
    """
    slots: list[int] = []
    for context_len, query_len, row in zip(context_lens, query_lens, row_index, strict=True):
        if query_len == 0:
            continue
        block_ids = block_table[row] if row >= 0 else []
        num_owned = local_len(context_len, world, rank, interleave)
        for position in range(context_len, context_len + query_len):
            mine = owns(position, world, rank, interleave)
            slots.append(slot_of(block_ids, num_owned, kernel_block_size) if mine else -1)
            num_owned += mine
    return SlotMapping(slots + [-1] * (num_slots - len(slots)))


def slots_between(block_ids: Sequence[int], start: int, stop: int, block_size: int) -> list[int]:
    """Return the slots of the tokens ``[start, stop)`` in these blocks, block by block.

    >>> slots_between([7, -1, 3], 2, 10, block_size=4)
    [30, 31, -1, -1, -1, -1, 12, 13]
    """
    slots: list[int] = []
    for column in range(start // block_size, -(-stop // block_size)):
        held = range(max(start - column * block_size, 0), min(stop - column * block_size, block_size))
        block = block_ids[column] if column < len(block_ids) else -1
        slots += [-1] * len(held) if block < 0 else [block * block_size + offset for offset in held]
    return slots


def slot_of(block_ids: Sequence[int], index: int, block_size: int) -> int:
    """Return the slot of the ``index``-th token in these blocks, -1 if there is no block."""
    column, offset = divmod(index, block_size)
    if column >= len(block_ids) or block_ids[column] < 0:
        return -1
    return block_ids[column] * block_size + offset
