"""Inputs of a case: the positions that tokens select, and the workspace that prefill tokens read."""

from collections.abc import Sequence
from math import gcd
from operator import lt
from typing import Any

from cumae.oracle.model.case import Case
from cumae.oracle.model.marks import GARBAGE

ORDERED = {3: "rising", 5: "in blocks", 8: "falling"}
"""Of ten rows, those whose positions rise, as where an indexer selects all keys; that are whole blocks, each
of which rises; and that fall, the newest position first."""
BLOCK = 16
"""Positions of a block of keys that is selected whole."""
FAR_BEYOND = 2**30
"""How far beyond the table some rows select a position: products of it do not fit 32 bits."""


def topk_indices(
    kv_lens: Sequence[int], positions: Sequence[int], topk: int, order: str = "mixed", seed: int = 0
) -> list[list[Any]]:
    """Return each token's ``kv_lens`` selected positions, padded with GARBAGE.

    A token's own position is among them, but for those that repeat the row before, as ``order`` "alike" has
    it. ``seed``: which positions are selected between the least and the last.

    >>> topk_indices([1, 3, 0], [0, 4, 0], topk=3)
    [[0, GARBAGE, GARBAGE], [2, 4, 3], [GARBAGE, GARBAGE, GARBAGE]]
    >>> topk_indices([3, 3], [4, 5], topk=3, order="alike")
    [[2, 4, 3], [2, 4, 3]]
    >>> topk_indices([4], [8], topk=4), topk_indices([4], [8], topk=4, seed=1)
    ([[8, 1, 3, 5]], [[8, 1, 6, 7]])
    """
    rows: list[list[Any]] = []
    for row, (position, kv_len) in enumerate(zip(positions, kv_lens, strict=True)):
        before = (positions[row - 1] + 1, kv_lens[row - 1]) if row else None
        if not kv_len:
            rows.append([GARBAGE] * topk)
        elif order == "alike" and before == (position, kv_len):
            rows.append(rows[-1])
        else:
            selected = _selection(row, position, kv_len, order)
            rows.append(_with_others(selected, row, seed) + [GARBAGE] * (topk - kv_len))
    return rows


def _coprime(step: int, size: int) -> int:
    """Return the first number from ``step`` on that has no divisor in common with ``size``."""
    while gcd(step, size) > 1:
        step += 1
    return step


def _selection(row: int, position: int, count: int, of_all: str) -> list[int]:
    """Return ``count`` positions up to ``position``, itself among them, in the order ``of_all`` rows.

    Mixed rows are scattered, and some are in an order of their own; rows alike follow from their count.
    """
    row = 1 if of_all == "alike" else row
    order = ORDERED.get(row % 10) if of_all in ("mixed", "alike") else of_all
    if order == "in blocks":
        return _in_blocks(row, position, count)
    size = position + 1
    step = _coprime(1 + (size * 5 // 8 + row) % size, size)
    selected = [(position - j * step) % size for j in range(count)]
    if order is not None:
        return sorted(selected, reverse=order == "falling")
    newest = row % count
    selected = selected[count - newest :] + selected[: count - newest]
    is_ascending = all(map(lt, selected, selected[1:]))
    return selected[::-1] if is_ascending else selected


def _with_others(selected: list[int], row: int, seed: int) -> list[int]:
    """Return as many positions with the same least and last one, of which others lie between, and as ordered.

    With ``seed`` 0, they are the same.
    """
    least, last = min(selected), max(selected)
    size, count = last - least - 1, len(selected) - 2
    if not seed or not 0 < count < size:
        return selected
    step = _coprime(1 + (size * 3 // 8 + row + 7 * seed) % size, size)
    between = sorted(least + 1 + (11 * seed + j * step) % size for j in range(count))
    others = dict(zip(sorted(selected), [least, *between, last], strict=True))
    return [others[position] for position in selected]


def _in_blocks(row: int, position: int, count: int) -> list[int]:
    """Return ``count`` positions of blocks of keys in any order, first of the one that holds ``position``.

    Each block rises; of the first and the last one, a part may be selected.
    """
    last, found = position // BLOCK, list[int]()
    step = _coprime(1 + row % (last + 1), last + 1)
    for j in range(last + 1):
        start = (last - j * step) % (last + 1) * BLOCK
        found += range(start, min(start + BLOCK, position + 1))
        if len(found) >= count:
            break
    own = min(count, position % BLOCK + 1)
    return found[position % BLOCK + 1 - own : position % BLOCK + 1 - own + count]


def selected_positions(
    indices: Sequence[Sequence[Any]],
    token_to_request: Sequence[int],
    is_live: Sequence[bool],
    workspaces: Sequence[int] | None,
    beyond: int | None,
    first: bool = False,
    fewer: bool = False,
    seed: int = 0,
) -> list[list[Any]]:
    """Return selected positions, some rows with -1 around them or one position ``beyond`` the table.

    ``first``: no -1 stands before a position. ``fewer``: of three rows, two select some of their positions.
    ``seed``: with another one than 0, one of four rows selects nothing if rows select fewer, and -1 stands
    between the positions of some unless ``first``.
    A padding row selects garbage, or nothing if the map gives the row to request 0. A row that reads a
    workspace selects nothing beyond the table, because the table does not bound a workspace.
    """
    rows: list[list[Any]] = []
    for row, positions in enumerate(indices):
        if not is_live[row]:
            rows.append([GARBAGE if token_to_request[row] < 0 else -1] * len(positions))
            continue
        num_used = len(positions) - positions.count(GARBAGE)
        if fewer and row % 3 and num_used:
            num_used -= row // 3 % num_used
        turn = row + seed
        if fewer and seed and turn % 4 == 0:
            num_used = 0
        found = [*positions[:num_used], *[-1] * (len(positions) - num_used)]
        unused = range(num_used, len(found))
        if beyond is not None and unused and row % 2 and (workspaces is None or workspaces[row] < 0):
            far = FAR_BEYOND if row % 8 == 7 else 0
            found[unused[0 if first else row // 2 % len(unused)]] = beyond + row + far
        if unused and row % 3 == 2 and not first:
            moved = max(len(unused) // 2, 1)
            found = found[-moved:] + found[:-moved]
        elif unused and seed and turn % 2 and not first:
            found = _apart(found, num_used)
        rows.append(found)
    return rows


def _apart(row: Sequence[Any], num_used: int) -> list[Any]:
    """Return a row in which the entries behind ``num_used`` stand between those before, as far as they go.

    >>> _apart([5, 7, 6, -1, -1], 3), _apart([5, -1, -1], 1)
    ([5, -1, 7, -1, 6], [5, -1, -1])
    """
    used, unused = row[:num_used], row[num_used:]
    pairs = [each for both in zip(used, unused, strict=False) for each in both]
    return [*pairs, *used[len(unused) :], *unused[len(used) :]]


def _gathered(case: Case) -> list[int]:
    """Return the requests whose keys are gathered into the workspace: prefills with a new token."""
    requests = enumerate(case.batch.requests)
    return [b for b, request in requests if request.phase == "prefill" and request.query_len > 0]


def workspace_ids(case: Case) -> list[int] | None:
    """Return for each token the number of its request among the gathered requests, -1 for none."""
    if not case.options.selection.prefill_workspace:
        return None
    number = {b: i for i, b in enumerate(_gathered(case))}
    requests = enumerate(case.batch.requests)
    ids = [number.get(b, -1) for b, request in requests for _ in range(request.query_len)]
    return ids + [-1] * case.layout.num_padding_tokens


def workspace_starts(case: Case) -> list[int] | None:
    """Return the first workspace row of each gathered request."""
    selection = case.options.selection
    if not selection.prefill_workspace:
        return None
    starts, end = [], 0
    for b in _gathered(case):
        starts.append(end + selection.workspace_gap)
        end = starts[-1] + case.batch.requests[b].seq_len
    return starts
