"""Where an element of an output belongs: its request, position and block."""

from dataclasses import dataclass, field, replace
from itertools import accumulate

from cumae.oracle import Case, Inputs, owns
from cumae.properties.results.verdict import Finding

TOKEN_AXES = ("token", "slot")
_ENTRIES = {"selected_key": "topk", "expert_of_token": "top_k"}
"""Axes with several entries for each token, and the option that says how many."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a finding marks in a drawing.

    ``positions``: wrong positions of each request; ``padding``: wrong padding tokens, counted from
    the first; ``ends``: requests whose end is a wrong entry.
    """

    positions: dict[int, frozenset[int]] = field(default_factory=dict)
    padding: frozenset[int] = frozenset()
    ends: frozenset[int] = frozenset()


def marks_of(case: Case, finding: Finding | None) -> Marks:
    """Return what to mark for a finding; nothing where it names no element."""
    if finding is None or finding.index < 0:
        return Marks()
    wrong = finding.wrong or (finding.index,)
    if finding.axis == "request_start":
        return Marks(ends=frozenset(entry - 1 for entry in wrong))
    if finding.axis in _ENTRIES:
        each = case.options.value(_ENTRIES[finding.axis])
        finding, wrong = replace(finding, axis="token"), tuple(index // each for index in wrong)
    if finding.axis not in (*TOKEN_AXES, "key_row"):
        return Marks()
    positions: dict[int, set[int]] = {}
    padding = set()
    for index in wrong:
        found = place_of(case, finding.axis, index)
        if found is None:
            padding.add(index - case.batch.num_tokens)
        else:
            positions.setdefault(found[0], set()).add(found[1])
    frozen = {b: frozenset(of_request) for b, of_request in positions.items()}
    return Marks(frozen, frozenset(padding) if finding.axis != "key_row" else frozenset())


def place_of(case: Case, axis: str, index: int) -> tuple[int, int] | None:
    """Return request and position of a token or key row, None behind the last one."""
    requests = case.batch.requests
    keys = axis == "key_row"
    lens = [request.query_len for request in requests]
    starts = Inputs(case)["cu_seqlens_k"] if keys else [0, *accumulate(lens)]
    for b, request in enumerate(requests):
        if starts[b] <= index < starts[b + 1]:
            return b, index - starts[b] + (0 if keys else request.context_len)
    return None


def place_text(case: Case, finding: Finding) -> str:
    """Return the request, position and block that a finding's index belongs to, "" where it has none."""
    index, requests = finding.index, case.batch.requests
    if index < 0:
        return ""
    if finding.axis == "request_start":
        whose = "padded request" if index > len(requests) else "request"
        return f"entry {index}: behind {whose} {index - 1}" if index else "entry 0: before the first request"
    if finding.axis in _ENTRIES:
        token, entry = divmod(index, case.options.value(_ENTRIES[finding.axis]))
        place = place_text(case, replace(finding, index=token, axis="token"))
        return f"entry {entry} of {place}{_selected(case, finding.axis, token, entry)}"
    if finding.axis == "cache_slot":
        return f"slot {index}: {slot_text(case, index, finding.raised_by)}"
    if finding.axis not in (*TOKEN_AXES, "key_row"):
        return ""
    found = place_of(case, finding.axis, index)
    if finding.axis == "key_row":
        if found is None:
            return f"key row {index}: behind the last key, {case.num_keys}"
        kind = "cached" if found[1] < requests[found[0]].context_len else "new"
        return f"key row {index}: request {found[0]}, position {found[1]}, {kind}"
    if found is None:
        return f"token {index}: padding, the step has {case.batch.num_tokens} tokens"
    row = f", table row {finding.rows[found[0]]}" if finding.rows else ""
    block = requests[found[0]].block_ids[found[1] // case.batch.tokens_per_block]
    return f"token {index}: request {found[0]}{row}, position {found[1]}, block {block + finding.raised_by}"


def owner_of(case: Case, finding: Finding) -> tuple[int | None, int | None]:
    """Return the request and the token that a finding's index belongs to, None where it belongs to none.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(3, 2, (7, 4)), Request(0, 1, (2,))), 4))
    >>> owner_of(case, Finding("agrees", "", "", index=2, axis="token"))
    (1, 2)
    """
    index, axis = finding.index, finding.axis
    if index < 0:
        return None, None
    if axis == "cache_slot":
        block = index // case.batch.block_size - finding.raised_by
        owners = [b for b, request in enumerate(case.batch.requests) if block in request.block_ids]
        return (owners[0] if owners else None), None
    if axis == "request_start":
        return (index - 1 if index else None), None
    if axis in _ENTRIES:
        index, axis = index // case.options.value(_ENTRIES[axis]), "token"
    if axis not in (*TOKEN_AXES, "key_row"):
        return None, None
    found = place_of(case, axis, index)
    return (None if found is None else found[0]), (None if axis == "key_row" else index)


def _selected(case: Case, axis: str, token: int, entry: int) -> str:
    """Return which position an entry of a token selects, "" where it has no say in it."""
    found = place_of(case, "token", token)
    if axis != "selected_key" or found is None:
        return ""
    selected = Inputs(case)["selected_positions"][token][entry]
    return f"; it selects position {selected}" if 0 <= selected <= found[1] else "; it selects none"


def shared_blocks(case: Case) -> frozenset[int]:
    """Return the blocks that several requests hold live.

    >>> from cumae.oracle import Batch, Request
    >>> sorted(shared_blocks(Case(Batch((Request(4, 1, (7, 1)), Request(4, 1, (7, 2))), 4))))
    [7]
    """
    batch = case.batch
    live = [set(request.block_ids[: batch.num_live_blocks(request)]) - {-1} for request in batch.requests]
    seen: set[int] = set()
    shared: set[int] = set()
    for blocks in live:
        shared |= blocks & seen
        seen |= blocks
    return frozenset(shared)


def slot_text(case: Case, slot: int, raised_by: int = 0) -> str:
    """Return a slot as block:offset and whose it is, on the rank of the case.

    ``raised_by``: what was added to every block id before the call.

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
