"""The routes of sparse attention: selected slots, whole or cut into the work items of a schedule."""

from collections.abc import Iterator, Sequence
from itertools import compress

from cumae.properties.attention.parts import NOBODY, Key, OutOfReach, Part, Rows
from cumae.properties.attention.step import Step, at


def by_selected_slots(step: Step) -> Rows:
    """Yield for each token its slots of ``topk_to_slots`` on every rank; -1 is skipped."""
    topk = step.case.options.selection.topk
    for row in range(len(step.tokens)):
        places = range(row * topk, (row + 1) * topk)
        yield row, [Part(_selected(step, rank, row, places)) for rank in step.ranks]


def by_compact_slots(step: Step) -> Rows:
    """Yield for each token its first ``num_valid`` slots of ``compact_topk_slots`` on every rank."""
    topk = step.case.options.selection.topk
    for row in range(len(step.tokens)):
        parts = []
        for rank in step.ranks:
            counts = step.says("compact_topk_slots", "num_valid", rank)
            slots = step.says("compact_topk_slots", "compact_slots", rank)
            places = range(row * topk, row * topk + at(counts, row, "num_valid"))
            found = [at(slots, place, "compact_slots") for place in places]
            parts.append(Part(_read(step, rank, row, found)))
        yield row, parts


def by_ragged_slots(step: Step) -> Rows:
    """Yield for each token the slots between its offset and the next."""
    offsets = step.says("persistent_buffers", "kv_indptr")
    for row in range(len(step.tokens)):
        count = at(offsets, row + 1, "kv_indptr") - at(offsets, row, "kv_indptr")
        yield row, [Part(_ragged(step, row, 0, count))]


def by_schedule(step: Step, schedule: str, slots: str) -> Rows:
    """Yield for each row its consecutive work items; an item that no worker did is a garbage key."""
    tokens, starts, stops = (step.says(schedule, f"work_{x}") for x in ("token", "start", "stop"))
    begins, num_splits = step.says(schedule, "work_indptr"), step.says(schedule, "num_splits")
    done: dict[int, list[Part]] = {}
    for worker in range(step.case.options.schedule.num_workers):
        stop = at(begins, worker + 1, "work_indptr")
        for item in range(at(begins, worker, "work_indptr"), stop):
            row = at(tokens, item, "work_token")
            first, last = at(starts, item, "work_start"), at(stops, item, "work_stop")
            if row < 0 or first >= last:
                continue
            done[item] = [Part(keys, row) for keys in _keys(step, slots, row, first, last)]
    item = 0
    for row in range(len(step.tokens)):
        parts: list[Part] = []
        for _ in range(at(num_splits, row, "num_splits")):
            parts += done.get(item, [Part([NOBODY])])
            item += 1
        yield row, parts


def by_any_schedule(step: Step) -> Rows:
    """Yield for each row its work items in any order, clipped to the row's keys."""
    tokens, starts, stops = (step.says("any_schedule", f"work_{x}") for x in ("token", "start", "stop"))
    parts: dict[int, list[Part]] = {row: [] for row in range(len(step.tokens))}
    for row, start, stop in zip(tokens, starts, stops, strict=True):
        if start >= stop or row < 0:
            continue
        if row not in parts:
            raise OutOfReach(f"has a work item of row {row} of {len(parts)}")
        last = min(stop, at(step.says("position_ids", "position_ids"), row, "position_ids") + 1)
        last = min(last, step.case.options.selection.topk)
        for keys in _keys(step, "topk_to_slots", row, start, last):
            parts[row].append(Part(keys))
    yield from parts.items()


def _keys(step: Step, slots: str, row: int, start: int, stop: int) -> Iterator[list[Key]]:
    """Yield the keys ``[start, stop)`` of a row's slots for each rank."""
    if slots == "persistent_buffers":
        yield _ragged(step, row, start, stop)
        return
    topk = step.case.options.selection.topk
    rows = {j // topk: _places(step, row + j // topk) for j in range(start, stop, topk)}
    rows[(stop - 1) // topk] = _places(step, row + (stop - 1) // topk)
    places = [rows[j // topk][j % topk] for j in range(start, stop)]
    for rank in step.ranks:
        yield _selected(step, rank, row, places)


def _places(step: Step, row: int) -> Sequence[int]:
    """Return the places of a row's selected positions in order; places without a valid one come last."""
    topk, inputs = step.case.options.selection.topk, step.inputs("topk_to_slots", step.ranks[0])
    if row >= len(inputs["selected_positions"]):
        return range(row * topk, (row + 1) * topk)
    own = inputs["position_ids"][row]
    selected = inputs["selected_positions"][row][:topk]
    valid = [isinstance(p, int) and 0 <= p <= own for p in selected]
    places = range(row * topk, row * topk + topk)
    return [*compress(places, valid), *compress(places, (not held for held in valid))]


def _selected(step: Step, rank: int, row: int, places: Sequence[int]) -> list[Key]:
    slots = step.says("topk_to_slots", "selected_slots", rank)
    found = [at(slots, place, "selected_slots") for place in places]
    return _read(step, rank, row, [slot for slot in found if slot >= 0])


def _read(step: Step, rank: int, row: int, slots: Sequence[int]) -> list[Key]:
    """Return the keys in a row's selected slots: of the workspace if the row has one, else of the cache.

    Each rank has the whole workspace: its parts are equal, and merging equal parts changes nothing.
    """
    workspaces = step.inputs("topk_to_slots", rank)["workspace_ids"]
    if workspaces is not None and workspaces[row] >= 0:
        return [at(step.workspace, slot, "the workspace") for slot in slots]
    return [step.read(slot, rank) for slot in slots]


def _ragged(step: Step, row: int, start: int, stop: int) -> list[Key]:
    slots, first = step.says("persistent_buffers", "kv_indices"), step.says("persistent_buffers", "kv_indptr")
    offset = at(first, row, "kv_indptr")
    found = [at(slots, offset + j, "kv_indices") for j in range(start, stop)]
    return [step.read(slot) if isinstance(slot, int) else NOBODY for slot in found if slot != -1]
