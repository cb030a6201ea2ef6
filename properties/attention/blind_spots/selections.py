"""Blind spots of selected keys: their slots, the rows that list them, and the schedules of work on them."""

from functools import lru_cache
from itertools import pairwise

from cumae.oracle import GARBAGE, Case, Inputs, Mark, persistent_buffers, topk_to_slots
from cumae.properties.attention.answers import Lists
from cumae.properties.attention.blind_spots.spot import BlindSpot, padding_row


def all_items_done(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each item is in some worker's span, and no span exceeds the room."""
    room = len(right["work_token"])
    spans = [range(*span) for span in pairwise(wrong["work_indptr"])]
    done = {item for span in spans for item in span}
    return done >= set(range(right["work_indptr"][-1])) and done <= set(range(room))


def stops_late(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether, on several ranks, a longer work item adds only slots that are -1 on each rank."""
    first = right["work_token"][index] * inputs["topk"]
    selected = [position for row in inputs["topk_indices"] for position in row]
    beyond = range(first + right["work_stop"][index], first + wrong["work_stop"][index])
    more = inputs["world"] > 1 and len(beyond) > 0
    return more and all(q < len(selected) and selected[q] is GARBAGE for q in beyond)


def starts_early(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether, on several ranks, an earlier start adds only slots that are -1 on each rank."""
    first = right["work_token"][index] * inputs["topk"]
    selected = [position for row in inputs["topk_indices"] for position in row]
    before = range(first + wrong["work_start"][index], first + right["work_start"][index])
    more = inputs["world"] > 1 and len(before) > 0
    return more and all(q >= 0 and selected[q] is GARBAGE for q in before)


def only_slot_again(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether a row's only slot, of all ranks, appears again in place of a skipped one."""
    row = index // inputs["topk"]
    first = row * inputs["topk"]
    valid = {slot for slot in right["selected_slots"][first : first + inputs["topk"]] if slot >= 0}
    again = right["selected_slots"][index] < 0 and valid == {wrong["selected_slots"][index]}
    return again and (inputs["world"] == 1 or _num_keys(inputs, row) == 1)


def _num_keys(inputs: Inputs, row: int) -> int:
    """Return how many selected positions of a row are in blocks, whichever rank has them."""
    positions = {position for position in inputs["selected_positions"][row] if position >= 0}
    owner, tokens = inputs["token_to_request"][row], inputs["block_size"] * inputs["world"]
    slots = topk_to_slots([owner], [sorted(positions)], inputs["block_table"], tokens).selected_slots
    return sum(slot >= 0 for slot in slots)


def same_selected_slots(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each token finds the same slots from its offset on; ragged slots are of one rank."""
    if inputs["world"] > 1:
        return True
    slots = _kept_slots(inputs.case, inputs.previous)
    return _from_offsets(inputs, slots, right) == _from_offsets(inputs, slots, wrong)


@lru_cache(maxsize=256)
def _kept_slots(case: Case, previous: Case | None) -> list[int | Mark]:
    """Return the slots in the buffers after a step, which is asked about once for each wrong answer."""
    slots: list[int | Mark] = Inputs(case, previous).call(persistent_buffers).kv_indices
    return slots


def _from_offsets(inputs: Inputs, slots: list[int | Mark], lists: Lists) -> list[list[int | Mark | None]]:
    rows = [(lists["selected_indptr"][t], lists["selected_lens"][t]) for t in range(inputs["num_tokens"])]
    spans = [range(first, first + length) for first, length in rows]
    return [sorted((slots[i] if 0 <= i < len(slots) else None for i in span), key=str) for span in spans]


_SCHEDULES = ("sparse_schedule", "metadata_cache")
SELECTIONS = (
    BlindSpot(
        _SCHEDULES,
        ("work_indptr",),
        "if each item is still in some worker's span",
        "each item is done, some perhaps twice with the same result; the balance does not affect values",
        all_items_done,
    ),
    BlindSpot(
        _SCHEDULES,
        ("work_token", "work_start", "work_stop"),
        "after the last item",
        "these items belong to no worker and no row",
        lambda inputs, right, wrong, index: index >= right["work_indptr"][-1],
    ),
    BlindSpot(
        _SCHEDULES,
        ("work_stop",),
        "larger, on several ranks, where no selected slot follows",
        "the selected slots there are -1, and ragged slots are not read",
        stops_late,
    ),
    BlindSpot(
        _SCHEDULES,
        ("work_start",),
        "smaller, on several ranks, where the row before ends without a selected slot",
        "the selected slots there are -1, and ragged slots are not read",
        starts_early,
    ),
    BlindSpot(
        _SCHEDULES,
        ("num_splits",),
        "rows of padding",
        "they come after all others, and their merged output is not read",
        padding_row,
    ),
    BlindSpot(
        ("metadata_cache",),
        ("rebuilt",),
        "anywhere",
        "it gives the cost of the schedule, not the schedule",
        lambda inputs, right, wrong, index: True,
    ),
    BlindSpot(
        ("topk_to_slots",),
        ("selected_slots",),
        "another negative number for -1",
        "any negative slot is skipped",
        lambda inputs, right, wrong, index: (
            max(right["selected_slots"][index], wrong["selected_slots"][index]) < 0
        ),
    ),
    BlindSpot(
        ("topk_to_slots",),
        ("selected_slots",),
        "the only slot of a row, of all ranks, once more for -1",
        "one key twice weighs as much as once",
        only_slot_again,
    ),
    BlindSpot(
        ("topk_to_slots",),
        ("selected_slots",),
        "rows of padding",
        "the output of padding is not read",
        lambda inputs, right, wrong, index: index // inputs["topk"] >= inputs["num_tokens"],
    ),
    BlindSpot(
        ("compact_topk_slots",),
        ("compact_slots",),
        "after the first num_valid of a row, so also in rows of padding",
        "these entries are not read",
        lambda inputs, right, wrong, index: (
            index % inputs["topk"] >= right["num_valid"][index // inputs["topk"]]
        ),
    ),
    BlindSpot(
        ("compact_topk_slots",),
        ("num_valid",),
        "rows of padding",
        "the output of padding is not read",
        padding_row,
    ),
    BlindSpot(
        ("compact_topk_slots",),
        ("num_valid",),
        "a negative number for 0",
        "a loop over that many slots does not run",
        lambda inputs, right, wrong, index: max(right["num_valid"][index], wrong["num_valid"][index]) <= 0,
    ),
    BlindSpot(
        ("flat_decodes",),
        ("selected_indptr", "selected_lens"),
        "where tokens find the same slots, as those of a shared prefix, and on several ranks",
        "a token reads as many slots as its length says, from its own offset on; they are of one rank",
        same_selected_slots,
    ),
)
