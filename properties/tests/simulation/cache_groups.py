"""Windows, compressed states and rings simulated token by token."""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import cycle

from cumae.oracle import Case
from cumae.properties.tests.simulation.tokens import Answer, Place, Token, lives_of, owners_of, places_of


def window_slots(case: Case) -> Answer:
    """Return what stands in a sliding window after each new token came in at its end."""
    places, size, columns = places_of(case.batch, 0, 1), case.batch.block_size, case.window_columns
    answer: Answer = {"window_slots": [], "window_lens": []}
    for b, life in enumerate(lives_of(case.batch)):
        visible: deque[int] = deque(maxlen=case.options.keys.window or columns)
        for token in life:
            place = places.get(token) if _has_row(case, b) else None
            visible.append(-1 if place is None else place.block * size + place.offset)
            if token.is_new:
                _append_row(answer, list(visible), columns)
    for _ in range(case.layout.num_padding_tokens):
        _append_row(answer, [], columns)
    return answer


def _append_row(answer: Answer, row: list[int], columns: int) -> None:
    answer["window_lens"].append(len(row))
    while len(row) < columns:
        row.append(-1)
    answer["window_slots"].extend(row)


def compressed_slots(case: Case) -> Answer:
    """Return where a rank puts each state, filling blocks of states as its groups become complete.

    Raises ``AssertionError`` where the tokens of a group have several owners: no such case is answered.
    """
    batch, parallel = case.batch, case.options.parallel
    held = places_of(batch, parallel.rank, parallel.interleave)
    answer: list[object] = []
    for b, life in enumerate(lives_of(batch)):
        room = (Place(block, o) for block in batch.requests[b].block_ids for o in range(batch.block_size))
        group: list[tuple[Token, int]] = []
        for token, owner in zip(life, owners_of(batch.world, parallel.interleave), strict=False):
            group.append((token, owner))
            place = None
            if len(group) == case.options.keys.compress_ratio:
                if len({one for _, one in group}) > 1:
                    raise AssertionError(f"{group} lies on several ranks")
                place = next(room) if owner == parallel.rank else None
                group = []
            if place is None or place.block < 0 or token not in held or not _has_row(case, b):
                slot = -1
            else:
                slot = place.block * batch.block_size + place.offset
            if token.is_new:
                answer.append(slot)
    return {"compressed_slots": answer + _unused(case)}


def ring_slots(case: Case) -> Answer:
    """Return the place that each new token takes in its request's ring, round after round."""
    answer: list[object] = []
    capacity = case.options.ring.ring_capacity
    for b, life in enumerate(lives_of(case.batch)):
        blocks = case.batch.requests[b].block_ids
        ring = [blocks[0] * capacity + offset for offset in range(capacity)] if blocks else []
        if not blocks or blocks[0] in (-1, 0) or not _has_row(case, b):
            ring = [-1]
        answer += [slot for token, slot in zip(life, cycle(ring), strict=False) if token.is_new]
    return {"ring_slots": answer + _unused(case)}


def _has_row(case: Case, request: int) -> bool:
    return case.layout.row_index is None or case.layout.row_index[request] >= 0


def _unused(case: Case) -> list[object]:
    return [-1 for _ in range(case.layout.num_padding_tokens + case.layout.num_padding_slots)]


SIMULATIONS: Mapping[str, Callable[[Case], Answer]] = {
    "window_slots": window_slots,
    "compressed_slots": compressed_slots,
    "ring_slots": ring_slots,
}
