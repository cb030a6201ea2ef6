"""Blind spots of the cache: its layout, slots and pages, and the lists in which a step finds them."""

from collections.abc import Iterator

from cumae.oracle import Inputs, local_len
from cumae.properties.attention.answers import Lists, cache_shape
from cumae.properties.attention.blind_spots.spot import BlindSpot, padding_row


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


PAGES = (
    BlindSpot(
        ("slot_mapping",),
        ("slot_mapping",),
        "another negative number for -1",
        "any negative slot writes nothing",
        lambda inputs, right, wrong, index: (
            max(right["slot_mapping"][index], wrong["slot_mapping"][index]) < 0
        ),
    ),
    BlindSpot(
        ("slot_mapping",),
        ("slot_mapping",),
        "padding, or another rank's tokens, in slots that hold no token",
        "rows written there are not read",
        nobodys_slot,
    ),
    BlindSpot(
        ("slot_mapping",),
        ("slot_mapping",),
        "entries after the padded rows",
        "they write no row",
        lambda inputs, right, wrong, index: index >= inputs["num_tokens_padded"],
    ),
    BlindSpot(
        ("persistent_buffers",),
        ("request_of_row",),
        "rows of padding, cleared ones, and beyond",
        "these rows have no token of this step, and a step writes all its own rows",
        padding_row,
    ),
    BlindSpot(
        ("persistent_buffers",),
        ("kv_indptr",),
        "after the tokens",
        "only the token of a row reads its offset and the next",
        lambda inputs, right, wrong, index: index > inputs["num_tokens"] or inputs["num_tokens"] == 0,
    ),
    BlindSpot(
        ("persistent_buffers",),
        ("kv_indices",),
        "after the last slot",
        "no row's offsets reach these slots",
        lambda inputs, right, wrong, index: index >= right["kv_indptr"][inputs["num_tokens"]],
    ),
    BlindSpot(
        ("latent_layout",),
        ("strides",),
        "dimensions in which no token lies beyond index 0",
        "the stride is multiplied by 0",
        only_index_0,
    ),
    BlindSpot(
        ("latent_layout",),
        ("shape",),
        "caches that hold no token",
        "nothing is read",
        lambda inputs, right, wrong, index: only_index_0(inputs, right, wrong, 3),
    ),
    BlindSpot(
        ("page_table",),
        ("page_table",),
        "columns of padding, of requests that compute nothing, and without a position that a token sees",
        "no token looks a key up there",
        unseen_column,
    ),
    BlindSpot(
        ("kv_indices",),
        ("kv_indptr", "kv_indices", "kv_last_page_len"),
        "if each request that computes something finds the same keys in its list",
        "lists of other requests are not read, nor pages before the window",
        same_listed_keys,
    ),
    BlindSpot(
        ("window_slots",),
        ("window_slots",),
        "behind the length of a row, and in rows of padding",
        "only as many slots as the length says are read",
        behind_the_window,
    ),
    BlindSpot(
        ("window_slots", "flat_decodes"),
        ("window_lens", "key_lens", "selected_lens"),
        "rows of padding",
        "the output of padding is not read",
        padding_row,
    ),
    BlindSpot(
        ("allocate_slots",),
        ("num_pages",),
        "anywhere",
        "it says how many pages leave the free list, not which",
        lambda inputs, right, wrong, index: True,
    ),
)
