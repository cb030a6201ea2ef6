"""The place of an output's element: request, token, position and block, by number and in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from cumae.oracle import Case, Inputs, owns


@dataclass(frozen=True, slots=True)
class Seen:
    """The function's view of a case's requests.

    ``rows``: the table row of each request, if it is not the request's index. ``raised_by``: the offset added
    to every block id of the case before the call.
    """

    rows: tuple[int, ...] = ()
    raised_by: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an element, by number; None if it belongs to nothing.

    ``position``: of the request; ``padding``: number of the padding token, counted from the first; ``ends``:
    whether the element is the end of the request.
    """

    request: int | None = None
    token: int | None = None
    position: int | None = None
    padding: int | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Placing:
    """Functions that place the elements of an axis: ``place`` by number, ``text`` in words."""

    place: Callable[[Case, int, Seen], Place] = lambda case, index, seen: Place()
    text: Callable[[Case, int, Seen], str] = lambda case, index, seen: ""


def position_of(case: Case, index: int) -> tuple[int, int] | None:
    """Return request and position of a token of the step, None for padding."""
    requests = case.batch.requests
    found = _within([0, *accumulate(request.query_len for request in requests)], index)
    return found and (found[0], requests[found[0]].context_len + found[1])


def _within(starts: Sequence[int], index: int) -> tuple[int, int] | None:
    """Return the range that holds an index, and the index within it."""
    for b, (start, stop) in enumerate(pairwise(starts)):
        if start <= index < stop:
            return b, index - start
    return None


def _token(case: Case, index: int, seen: Seen) -> Place:
    found = position_of(case, index)
    if found is None:
        return Place(token=index, padding=index - case.batch.num_tokens)
    return Place(found[0], index, found[1])


def _token_text(case: Case, index: int, seen: Seen) -> str:
    found = position_of(case, index)
    if found is None:
        return f"token {index}: padding, the step has {case.batch.num_tokens} tokens"
    b, position = found
    row = f", table row {seen.rows[b]}" if seen.rows else ""
    block = case.batch.requests[b].block_ids[position // case.batch.tokens_per_block] + seen.raised_by
    return f"token {index}: request {b}{row}, position {position}, block {block}"


def token_entry(entries: Callable[[Case], int]) -> Placing:
    """Return the placing of one of several entries of a token."""

    def place(case: Case, index: int, seen: Seen) -> Place:
        return _token(case, index // entries(case), seen)

    def text(case: Case, index: int, seen: Seen) -> str:
        row, entry = divmod(index, entries(case))
        return f"entry {entry} of {_token_text(case, row, seen)}"

    return Placing(place, text)


def selected_key(entries: Callable[[Case], int]) -> Placing:
    """Return the placing of a token's entry that selects a position."""
    of_token = token_entry(entries)

    def text(case: Case, index: int, seen: Seen) -> str:
        row, entry = divmod(index, entries(case))
        found, whole = position_of(case, row), of_token.text(case, index, seen)
        if found is None:
            return whole
        selected = Inputs(case)["selected_positions"][row][entry]
        is_one = 0 <= selected <= found[1]
        return f"{whole}; it selects {f'position {selected}' if is_one else 'none'}"

    return Placing(of_token.place, text)


def _key_row(case: Case, index: int, seen: Seen) -> Place:
    found = _within(Inputs(case)["cu_seqlens_k"], index)
    return Place() if found is None else Place(found[0], position=found[1])


def _key_row_text(case: Case, index: int, seen: Seen) -> str:
    found = _within(Inputs(case)["cu_seqlens_k"], index)
    if found is None:
        return f"key row {index}: behind the last key, {case.num_keys}"
    kind = "cached" if found[1] < case.batch.requests[found[0]].context_len else "new"
    return f"key row {index}: request {found[0]}, position {found[1]}, {kind}"


def _boundary(case: Case, index: int, seen: Seen) -> Place:
    return Place(index - 1, ends=True) if index else Place()


def _boundary_text(case: Case, index: int, seen: Seen) -> str:
    if not index:
        return "entry 0: before the first request"
    whose = "padded request" if index > len(case.batch.requests) else "request"
    return f"entry {index}: behind {whose} {index - 1}"


def _cache_slot(case: Case, index: int, seen: Seen) -> Place:
    """Return the place of a slot of the cache: the first request that holds its block."""
    block = index // case.batch.block_size - seen.raised_by
    owners = (b for b, request in enumerate(case.batch.requests) if block in request.block_ids)
    return Place(next(owners, None))


def _cache_slot_text(case: Case, index: int, seen: Seen) -> str:
    return f"slot {index}: {slot_text(case, index, seen.raised_by)}"


NOWHERE = Placing()
TOKEN = Placing(_token, _token_text)
KEY_ROW = Placing(_key_row, _key_row_text)
BOUNDARY = Placing(_boundary, _boundary_text)
CACHE_SLOT = Placing(_cache_slot, _cache_slot_text)


def slot_text(case: Case, slot: int, raised_by: int = 0) -> str:
    """Return a slot as block:offset with its position and request, on the rank of the case.

    ``raised_by``: the offset added to every block id before the call.

    >>> from cumae.oracle import Batch, Request
    >>> slot_text(Case(Batch((Request(3, 2, (7, 4)),), 4)), 18)
    '4:2, position 6 of request 0'
    """
    if slot < 0:
        return "none"
    size = case.batch.block_size
    block, offset = divmod(slot, size)
    for b, request in enumerate(case.batch.requests):
        if block - raised_by in request.block_ids:
            column = request.block_ids.index(block - raised_by)
            local = column * size + offset
            position = local if case.batch.world == 1 else _global(case, local)
            return f"{block}:{offset}, position {position} of request {b}"
    return f"{block}:{offset}, in no request's block"


def _global(case: Case, local: int) -> int:
    """Return the position that is the rank's ``local``-th of a request."""
    position = owned = 0
    while True:
        if owns(position, case.batch.world, case.options.parallel.rank, case.options.parallel.interleave):
            if owned == local:
                return position
            owned += 1
        position += 1
