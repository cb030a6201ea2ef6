"""The place of a chunk of a sequence: its request and its positions."""

from cumae.oracle import Case, Request
from cumae.properties.operations.places import Place, Placing, Seen


def num_chunks(request: Request, case: Case) -> int:
    """Return the chunks of a request; none if it has no new token."""
    size, first = case.options.chunks.chunk_size, _first(request, case)
    if not request.query_len:
        return 0
    return -(-(first + request.query_len) // size) - first // size


def _first(request: Request, case: Case) -> int:
    """Return the place of a request's first row, from which its chunks are counted."""
    return request.context_len if case.options.chunks.absolute_chunks else 0


def _chunk(case: Case, index: int) -> tuple[int, int] | None:
    """Return request and number of a chunk, None behind the last one."""
    for b, request in enumerate(case.batch.requests):
        count = num_chunks(request, case)
        if index < count:
            return b, index
        index -= count
    return None


def _positions(case: Case, b: int, number: int) -> range:
    """Return the positions of a chunk."""
    request, size = case.batch.requests[b], case.options.chunks.chunk_size
    first = _first(request, case)
    shift, start = request.context_len - first, (first // size + number) * size
    return range(max(start, first) + shift, min(start + size, first + request.query_len) + shift)


def _place(case: Case, index: int, seen: Seen) -> Place:
    found = _chunk(case, index)
    return Place() if found is None else Place(found[0], position=_positions(case, *found)[0])


def _text(case: Case, index: int, seen: Seen) -> str:
    found = _chunk(case, index)
    if found is None:
        return f"entry {index}: behind the last chunk"
    positions = _positions(case, *found)
    span = f"positions {positions[0]} to {positions[-1]}"
    return f"entry {index}: request {found[0]}, chunk {found[1]}, {span}"


SEQUENCE_CHUNK = Placing(_place, _text)
CHUNK_PAIR = Placing(
    lambda case, index, seen: _place(case, index // 2, seen),
    lambda case, index, seen: _text(case, index // 2, seen),
)
"""Of an entry of (request, number)."""
