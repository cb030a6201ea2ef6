"""The slot into which the compressed state of each group of tokens is written."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.context_parallel import local_len
from cumae.oracle.model.rules import require, require_int
from cumae.oracle.slot_mapping import slot_of


class CompressedSlots(NamedTuple):
    """``compressed_slots`` int64 [num_slots]; -1 means that nothing is written."""

    compressed_slots: list[int]


def compressed_slots(
    token_to_request: Sequence[int],
    position_ids: Sequence[int],
    slot_mapping: Sequence[int],
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    block_size: int,
    compress_ratio: int,
    num_slots: int,
    world: int = 1,
    rank: int = 0,
    interleave: int = 1,
) -> CompressedSlots:
    """Return for the last token of each group the slot of the group's state, and -1 for the other tokens.

    ``compress_ratio`` consecutive positions of a request make one state, which their last token writes.
    ``token_to_request`` int32 [T], -1 on padding; ``position_ids`` int64 [T]; ``slot_mapping`` int64 [>= T],
    the slot of the token itself, negative for none; ``row_index`` int [R]: the row of ``block_table`` int
    [rows, width] that lists the request's blocks of states, ``block_size`` states each, -1 for none.
    ``num_slots``: length of the buffer.

    On a rank the table holds the states of the positions that it owns. Runs of ``interleave`` positions go
    round the ranks and hold whole groups.

    The slot is -1 for a token that ends no group and for one without a slot of its own: another rank's, or
    one that is computed again though it is cached. It is also -1 for a request whose row is -1, a column past
    the table's width and an entry of -1, and from row T to the end of the buffer.

    Raises ``ValueError`` where ranks would share a group, and for a rank that is none of the world.
    Source: vLLM's ``get_compressed_slot_mapping``. SGLang writes ``loc // compress_ratio``, or 0 for none.

    >>> table = [[7, 3], [], [5]]
    >>> own = [32, 33, 34, -1, 21, -1, -1]
    >>> rows = [0, 1, 2]
    >>> found = compressed_slots([0, 0, 0, 0, 2, -1], [9, 10, 11, 12, 1, 0], own, table, rows, 4, 2, 7)
    >>> found.compressed_slots
    [12, -1, 13, -1, 20, -1, -1]
    """
    require_int("block_size", block_size, 1)
    require_int("compress_ratio", compress_ratio, 1)
    require_int("world", world, 1)
    require_int("rank", rank, 0, world - 1)
    require_int("num_slots", num_slots, len(token_to_request))
    whole = world == 1 or interleave % compress_ratio == 0
    require(whole, "compress_ratio", compress_ratio, f"divide interleave = {interleave} when world > 1")
    slots: list[int] = []
    tokens = zip(token_to_request, position_ids, slot_mapping, strict=False)
    for owner, position, own_slot in tokens:
        slot = -1
        if owner >= 0 and own_slot >= 0 and (position + 1) % compress_ratio == 0:
            num_before = local_len(position, world, rank, interleave) // compress_ratio
            block_ids = block_table[row_index[owner]] if row_index[owner] >= 0 else []
            slot = slot_of(block_ids, num_before, block_size)
        slots.append(slot)
    return CompressedSlots(slots + [-1] * (num_slots - len(slots)))
