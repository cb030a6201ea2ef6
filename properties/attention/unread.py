"""Tests of whether attention depends on one entry in which an answer differs."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cumae.oracle import GARBAGE, Case, Inputs, Mark, local_len, persistent_buffers
from cumae.properties.attention.answers import Lists, cache_shape

Test = Callable[[Inputs, Lists, Lists, int], bool]
"""Takes the inputs, the right answer, the wrong one, and the index of an entry in which they differ."""


class BlindSpot(NamedTuple):
    """Entries of outputs that attention does not depend on. ``where`` and ``reason`` are for readers.

    ``holds``: returns whether the difference at an index is invisible, from the inputs, the right answer
    and the wrong one.
    """

    operations: tuple[str, ...]
    outputs: tuple[str, ...]
    where: str
    reason: str
    holds: Test


def padding_row(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the entry belongs to a padding row."""
    return index >= int(inputs["num_tokens"])


def no_prefill_row(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the entry belongs to a decode or to padding."""
    rows = [r.phase for r in inputs.case.batch.requests for _ in range(r.query_len)]
    return index >= len(rows) or rows[index] == "decode"


def empty_window(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the window is empty in both answers."""
    return bool(right["ks"][index] == right["ke"][index] and wrong["ks"][index] == wrong["ke"][index])


def not_less(name: str) -> Test:
    """Return the test of whether the entry is not smaller than the right one."""
    return lambda inputs, right, wrong, index: bool(wrong[name][index] >= right[name][index])


def _computing(inputs: Inputs) -> set[int]:
    """Return the requests in scope that compute something."""
    everybody = inputs["key_scope"] == "all"
    requests = enumerate(inputs.case.batch.requests)
    return {b for b, r in requests if r.query_len and (everybody or r.phase == "prefill")}


def no_keys_meet(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether no attended keys begin at this offset, and none end there or unwritten ones follow."""
    case, now, then = inputs.case, right["cu_seqlens_k"], wrong["cu_seqlens_k"][index]
    world, ratio = inputs["world"], inputs["compress_ratio"]
    readers = _computing(inputs)
    if world == ratio == 1:
        return not {index - 1, index} & readers
    needed = {}
    for b in readers:
        request = case.batch.requests[b]
        rows, run = request.seq_len // ratio, inputs["interleave"]
        owned = [local_len(rows, world, rank, run) for rank in range(world)]
        needed[b] = max(owned) if request.phase == "prefill" else 0
    ends_behind_its_keys = now[index - 1] + needed.get(index - 1, 0) <= then <= now[-1]
    return not needed.get(index) and (not needed.get(index - 1) or ends_behind_its_keys)


def same_rows(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each token keeps its row of its request, and no computed row is beyond the padding."""
    return _owners(inputs, right) == _owners(inputs, wrong) is not None


def _owners(inputs: Inputs, lists: Lists) -> list[tuple[int, int]] | None:
    starts, padded, longest = lists["cu_seqlens_q"], inputs["num_tokens_padded"], lists["max_seqlen_q"][0]
    owners = [(-1, -1)] * padded
    for b, (first, stop) in enumerate(pairwise(starts)):
        if first < stop and not 0 <= first <= min(stop, first + longest) <= padded:
            return None
        owners[first:stop] = [(b, stop - row) for row in range(first, stop)]
    return owners[: inputs["num_tokens"]]


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


def nobodys_slot(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether a row that must not be written goes alone to a slot of the cache without a token."""
    slot, written = wrong["slot_mapping"][index], wrong["slot_mapping"][: inputs["num_tokens_padded"]]
    held = {*_held_slots(inputs, inputs["rank"])}
    (blocks, _, size, _), _ = cache_shape(inputs.case)
    alone = written.count(slot) == 1 and slot < blocks * size
    return right["slot_mapping"][index] < 0 and slot not in held and alone


def _held_slots(inputs: Inputs, rank: int) -> Iterator[int]:
    case = inputs.case
    size, world, options = case.batch.block_size, case.batch.world, case.options
    for request in case.batch.requests:
        for index in range(local_len(request.seq_len, world, rank, options.parallel.interleave)):
            yield request.block_ids[index // size] * size + index % size


def only_index_0(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether every cached token has index 0 in this dimension."""
    slots = [slot for rank in range(inputs["world"]) for slot in _held_slots(inputs, rank)]
    size = inputs["block_size"]
    return not any((slot // size, slot % size, 0, 1)[index] for slot in slots)


def unread_key(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the key row belongs to no request that computes something, and its new source exists."""
    spans = [*pairwise(inputs["cu_seqlens_k"])]
    (blocks, _, size, _), _ = cache_shape(inputs.case)
    match wrong["keys"][index]:
        case ("cache", block, offset):
            exists = 0 <= block * size + offset < blocks * size
        case ("new", row):
            exists = 0 <= row < inputs["num_tokens_padded"]
        case _:
            exists = True
    return exists and not any(index in range(*spans[b]) for b in _computing(inputs))


def longer_than_any(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether no chunk that is attended to is longer."""
    first = index * inputs["num_requests_padded"]
    longest = max((right["chunk_lens"][first + b] for b in _computing(inputs)), default=0)
    return bool(longest == 0 or wrong["chunk_maxima"][index] >= longest)


def room_for_all(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the total lies between the rows of the chunk and the size of the workspace.

    For an empty chunk it may also be below 0.
    """
    now, then = right["chunk_totals"][index], wrong["chunk_totals"][index]
    return bool(now <= then <= inputs["workspace_tokens"] or then <= now == 0)


def unread_chunk(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the chunk is shorter, and its request computes nothing or it should be empty."""
    idle = index % inputs["num_requests_padded"] not in _computing(inputs)
    now, then = right["chunk_lens"][index], wrong["chunk_lens"][index]
    return bool(then <= now and (idle or now == 0))


def rows_of_their_own(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each request attends to exactly the rows that it gathered, and no two share a row."""
    num_requests = inputs["num_requests_padded"]
    j = index // (num_requests + 1)
    offsets = wrong["chunk_cu_seqlens"][j * (num_requests + 1) :]
    lens = wrong["chunk_lens"][j * num_requests : (j + 1) * num_requests]
    gathered = [offsets[b] + i for b, length in enumerate(lens) for i in range(length)]
    inside = all(0 <= row < wrong["chunk_totals"][j] for row in gathered)
    longest = wrong["chunk_maxima"][j]
    spans = {b: max(0, min(offsets[b + 1] - offsets[b], longest)) for b in _computing(inputs)}
    return inside and len({*gathered}) == len(gathered) and all(n == lens[b] for b, n in spans.items())


def only_slot_again(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether, on one rank, a row's only slot appears again in place of a skipped one."""
    first = index // inputs["topk"] * inputs["topk"]
    valid = {slot for slot in right["selected_slots"][first : first + inputs["topk"]] if slot >= 0}
    again = right["selected_slots"][index] < 0 and valid == {wrong["selected_slots"][index]}
    return again and inputs["world"] == 1


def unseen_column(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether no token of the step sees a position of the column of the page table."""
    b, column = divmod(index, inputs["num_page_columns"])
    requests, window, size = inputs.case.batch.requests, inputs["window"], inputs["tokens_per_entry"]
    if b >= len(requests) or not requests[b].query_len:
        return True
    first = max(0, requests[b].context_len + 1 - window) if window else 0
    return not range(max(first, column * size), min(requests[b].seq_len, (column + 1) * size))


def same_listed_keys(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each request that computes something finds the same keys in its list of pages."""
    return _listed_keys(inputs, right) == _listed_keys(inputs, wrong)


def _listed_keys(inputs: Inputs, lists: Lists) -> list[list[tuple[int, int] | None]]:
    starts, pages, size = lists["kv_indptr"], lists["kv_indices"], inputs["block_size"]
    found = []
    for b in _with_rows(inputs):
        end = (starts[b + 1] - starts[b] - 1) * size + lists["kv_last_page_len"][b]
        first = max(0, end - inputs["window"]) if inputs["window"] else 0
        places = [(starts[b] + i // size, i % size) for i in range(first, end)]
        found.append([(pages[p], offset) if 0 <= p < len(pages) else None for p, offset in places])
    return found


def _with_rows(inputs: Inputs) -> list[int]:
    return [b for b, request in enumerate(inputs.case.batch.requests) if request.query_len]


def behind_the_window(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the slot stands behind the length of its row, or in a row of padding."""
    row, column = divmod(index, inputs["window_columns"])
    return bool(row >= inputs["num_tokens"] or column >= right["window_lens"][row])


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
