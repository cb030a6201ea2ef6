"""The text of a cell of a picture under the pointer: token, request, position and slot."""

from cumae.oracle import Case, local_len, owns


def cell_title(case: Case, b: int, position: int) -> str:
    """Return the words for the cell of a request's position.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(3, 2, (7, 4)), Request(1, 1, (2,))), 4))
    >>> cell_title(case, 0, 4)
    'token 1, new: request 0, position 4, slot 16 (block 4, offset 0)'
    >>> cell_title(case, 1, 0)
    'cached: request 1, position 0, slot 8 (block 2, offset 0)'
    """
    request = case.batch.requests[b]
    kind = "cached"
    if position >= request.context_len:
        first = sum(other.query_len for other in case.batch.requests[:b])
        kind = f"token {first + position - request.context_len}, new"
    return f"{kind}: request {b}, position {position}, {_slot(case, b, position)}"


def run_title(case: Case, b: int, *, new: bool) -> str:
    """Return the words for all cached or all new cells of a request."""
    request = case.batch.requests[b]
    if not new:
        return f"cached: request {b}, positions 0 to {request.context_len - 1}"
    first = sum(other.query_len for other in case.batch.requests[:b])
    tokens = f"tokens {first} to {first + request.query_len - 1}, new"
    return f"{tokens}: request {b}, positions {request.context_len} to {request.seq_len - 1}"


def _slot(case: Case, b: int, position: int) -> str:
    """Return the slot of a position on the rank of the case, in words."""
    batch, parallel = case.batch, case.options.parallel
    world, rank, interleave = batch.world, parallel.rank, parallel.interleave
    rows = case.layout.row_index
    if not owns(position, world, rank, interleave):
        return f"held by another rank than {rank}"
    block = batch.requests[b].block_ids[position // batch.tokens_per_block]
    if block < 0 or (rows is not None and rows[b] < 0):
        return "no slot"
    offset = local_len(position, world, rank, interleave) % batch.block_size
    return f"slot {block * batch.block_size + offset} (block {block}, offset {offset})"
