"""Schedules, and what outlives a step, simulated token by token."""

from itertools import cycle, islice

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer, Token, groups_of, lives_of, places_of


def sparse_schedule(
    batch: Batch, *, num_padding_tokens: int = 0, topk: int, split_size: int, num_workers: int
) -> Answer:
    """Return the items that come up as each token takes up its keys, handed to the workers one at a time."""
    items: list[tuple[int, int, int]] = []
    num_splits: list[object] = []
    for kept in (kept for request in attended_of(batch, topk) for kept in request):
        splits = list(groups_of(range(kept), split_size))
        items.extend((len(num_splits), split[0], split[-1] + 1) for split in splits)
        num_splits.append(len(splits))
    num_splits.extend(0 for _ in range(num_padding_tokens))
    hands = [0 for _ in range(num_workers)]
    for _, worker in zip(items, cycle(range(num_workers)), strict=False):
        hands[worker] += 1
    rows, taken = iter(items), list[object]()
    work_indptr: list[object] = [0]
    for hand in hands:
        taken.extend(islice(rows, hand))
        work_indptr.append(len(taken))
    room = [split for _ in num_splits for split in groups_of(range(topk), split_size)]
    none = [(-1, 0, 0) for _ in range(len(room) - len(items))]
    answer: Answer = {"work_indptr": work_indptr}
    for column, name in enumerate(("work_token", "work_start", "work_stop")):
        answer[name] = [item[column] for item in items + none]
    return {**answer, "num_splits": num_splits}


def any_schedule(batch: Batch, *, num_padding_tokens: int = 0, topk: int, split_size: int) -> Answer:
    """Return room for the splits of a row that has all its keys, a row at a time."""
    room: list[object] = []
    computed = [token for life in lives_of(batch) for token in life if token.is_new]
    for _ in [*computed, *range(num_padding_tokens)]:
        room.extend("any" for _ in groups_of(range(topk), split_size))
    return {name: list(room) for name in ("work_token", "work_start", "work_stop")}


def metadata_cache(
    batch: Batch,
    previous: Batch | None,
    *,
    num_padding_tokens: int = 0,
    num_previous_padding_tokens: int = 0,
    topk: int,
    split_size: int,
    num_workers: int,
) -> Answer:
    """Return the schedule built afresh; it may be kept if each token is followed by the same as before."""
    fresh = sparse_schedule(
        batch,
        num_padding_tokens=num_padding_tokens,
        topk=topk,
        split_size=split_size,
        num_workers=num_workers,
    )
    same = previous is not None and (
        attended_of(batch, topk) == attended_of(previous, topk)
        and num_padding_tokens == num_previous_padding_tokens
    )
    return {**fresh, "rebuilt": [0 if same else 1]}


def persistent_buffers(
    batch: Batch,
    selected: list[list[int]],
    *,
    num_padding_tokens: int = 0,
    num_previous_rows: int = 0,
    num_spare_tokens: int = 0,
    topk: int,
) -> Answer:
    """Return the buffers after everything the step before wrote was cleared and this step written over it."""
    slots = {
        (token.request, token.number): place.block * batch.block_size + place.offset
        for token, place in places_of(batch, 0, 1).items()
    }
    lives = lives_of(batch)
    rows = [token for life in lives for token in life if token.is_new]
    num_rows = len(rows) + num_padding_tokens
    owners: list[object] = ["untouched" for _ in range(num_rows + num_spare_tokens)]
    keys: list[list[object]] = [["untouched" for _ in range(topk)] for _ in owners]
    for row in range(num_previous_rows):
        owners[row], keys[row] = -1, [-1 for _ in range(topk)]
    for row in range(num_rows):
        owners[row], keys[row] = -1, ["any" for _ in range(topk)]
    indices = [entry for row_of_keys in keys for entry in row_of_keys]
    starts, num_keys = list[object](), 0
    for row, token in enumerate(rows):
        starts.append(num_keys)
        owners[row] = token.request
        for position in selected[row][: min(token.number + 1, topk)]:
            indices[num_keys] = slots.get((token.request, position), -1)
            num_keys += 1
    while len(starts) < len(owners) + 1:
        starts.append(num_keys)
    return {"request_of_row": owners, "kv_indptr": starts, "kv_indices": indices}


def attended_of(batch: Batch, topk: int) -> list[list[int]]:
    """Return how many keys each new token takes up, request by request where there are any."""
    attended = []
    for life in lives_of(batch):
        seen = list[Token]()
        counts = []
        for token in life:
            if len(seen) < topk:
                seen.append(token)
            if token.is_new:
                counts.append(len(seen))
        if counts:
            attended.append(counts)
    return attended
