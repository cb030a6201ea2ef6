"""The cache slots of the positions that each token of the step selected."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.context_parallel import local_len, owns
from cumae.oracle.model.rules import INT32_MAX, require


class TopkToSlots(NamedTuple):
    """``selected_slots`` int32 [T * topk], token after token; -1 means none."""

    selected_slots: list[int]


def topk_to_slots(
    token_to_request: Sequence[int],
    selected_positions: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
    world: int = 1,
    rank: int = 0,
    interleave: int = 1,
    workspace_ids: Sequence[int] | None = None,
    workspace_starts: Sequence[int] | None = None,
) -> TopkToSlots:
    """Return the slot of each selected position, in the order of selection.

    ``token_to_request`` int32 [T], -1 on padding; ``selected_positions`` int32 [T, topk], counted within the
    request, -1 for none; ``block_table`` int [>= R, width] in request order. Under context parallelism a
    rank's blocks hold the positions it owns.

    With a prefill workspace, ``workspace_ids`` int32 [T] is the number of the gathered request whose keys a
    token reads there, -1 if the token reads the cache; ``workspace_starts`` int32 [W] is the first workspace
    row of each gathered request. Without a workspace both are None. A workspace holds all positions on every
    rank: position p is in row start + p, for any table and rank.

    The slot is -1 on padding rows and for a position of -1. In the cache it is also -1 for a position of
    another rank, for a column past the table's width and for an entry of -1.

    Raises ``ValueError`` for a slot beyond int32, for an id beyond the starts, and for ids without starts.
    Source: vLLM's ``triton_convert_req_index_to_global_index``.

    >>> table = [[7, 3], [], [5]]
    >>> topk_to_slots([0, 2, -1], [[4, 0, -1], [1, 9, 0], [0, 0, 0]], table, block_size=4).selected_slots
    [12, 28, -1, 21, -1, 20, -1, -1, -1]
    >>> in_workspace = {"workspace_ids": [-1, 1, -1], "workspace_starts": [0, 30]}
    >>> selected = [[4, 0], [1, -1], [0, 0]]
    >>> topk_to_slots([0, 2, -1], selected, table, block_size=4, **in_workspace).selected_slots
    [12, 28, 31, -1, -1, -1]
    """
    both = (workspace_ids is None) == (workspace_starts is None)
    require(both, "workspace_starts", workspace_starts, "be given if and only if workspace_ids is")

    def owned(position: int) -> int:
        """Return the position's number among those that this rank owns, -1 if it is of another."""
        mine = position >= 0 and owns(position, world, rank, interleave)
        return local_len(position, world, rank, interleave) if mine else -1

    def slots_in(block_ids: Sequence[int], positions: Sequence[int]) -> list[int]:
        held = positions if world == 1 else map(owned, positions)
        stop = len(block_ids) * block_size
        return [
            block_ids[index // block_size] * block_size + index % block_size
            if 0 <= index < stop and block_ids[index // block_size] >= 0
            else -1
            for index in held
        ]

    slots: list[int] = []
    for row, (owner, positions) in enumerate(zip(token_to_request, selected_positions, strict=True)):
        found = [-1] * len(positions)
        if workspace_ids is not None and workspace_starts is not None and workspace_ids[row] >= 0:
            known = workspace_ids[row] < len(workspace_starts)
            require(known, f"workspace_ids[{row}]", workspace_ids[row], f"be < {len(workspace_starts)}")
            start = workspace_starts[workspace_ids[row]]
            found = [start + position if position >= 0 else -1 for position in positions]
        elif owner >= 0 and max(positions, default=-1) >= 0:
            found = slots_in(block_table[owner], positions)
        highest = max(found, default=-1)
        require(highest <= INT32_MAX, "slot", highest, f"be <= {INT32_MAX}")
        slots += found
    return TopkToSlots(slots)
