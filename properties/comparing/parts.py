"""The parts of an output that belong to each request of a step, by what its index counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case, Request
from cumae.properties.running.memory import Words

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of an output of one case, or what is made of them: ``what`` they are called in a sentence.

    ``words``: what a function wrote; ``wanted``: what the oracle says; ``held``: where it says anything.
    ``counts``: elements of each live request, which stand in order; None where elements belong to no
    request. ``per``: elements of each boundary between requests, 0 where the part is not these.
    """

    what: str
    words: Words
    wanted: Words
    held: Mask
    counts: Sequence[int] | None = None
    per: int = 0


def parts_of(whole: Part, axis: str, per: int, case: Case) -> Iterator[Part]:
    """Yield the parts of an output whose index counts ``axis``, ``per`` elements each.

    None where this axis is not known: such an output is related to nothing.
    """
    if axis in _ITEMS:
        yield from _of_requests(whole, _ITEMS[axis], case, per)
    elif axis in _WHOLE:
        yield whole
    elif axis == "request_start" and len(whole.words) == case.num_requests_padded + 1:
        yield replace(whole, per=1)
        yield from _steps(whole, 1, _one, case)
    elif axis == "token_start" and len(whole.words):
        yield whole
        yield from _steps(whole, 1, _tokens, case)
    elif axis in ("chunk_request", "chunk_start"):
        width = case.num_requests_padded + (axis == "chunk_start")
        if len(whole.words) and width and len(whole.words) % width == 0:
            yield from _of_chunks(whole, width, axis, case)


def _of_requests(
    part: Part, items: Callable[[Request, Case], int], case: Case, per: int = 1
) -> Iterator[Part]:
    counts = [items(request, case) * per for request in case.batch.requests]
    if sum(counts) <= len(part.words):
        yield replace(part, counts=counts)


def _of_chunks(whole: Part, width: int, axis: str, case: Case) -> Iterator[Part]:
    """Yield the entries of each request, or of each boundary and their steps, over all chunks."""
    rows = len(whole.words) // width
    words, wanted, held = (a.reshape(rows, width).T.ravel() for a in (whole.words, whole.wanted, whole.held))
    by_column = Part(whole.what, words, wanted, held)
    if axis == "chunk_request":
        yield from _of_requests(by_column, _one, case, rows)
        return
    yield replace(by_column, per=rows)
    yield from _steps(whole, rows, _one, case)


def _steps(part: Part, rows: int, items: Callable[[Request, Case], int], case: Case) -> Iterator[Part]:
    """Yield by how much boundaries, in so many rows, grow from each to the next."""
    words, wanted, held = (a.reshape(rows, -1) for a in (part.words, part.wanted, part.held))
    grown, must = (np.diff(a.astype(np.int64), axis=1).T.ravel() for a in (words, wanted))
    both = (held[:, 1:] & held[:, :-1]).T.ravel()
    yield from _of_requests(Part(f"the steps of {part.what}", grown, must, both), items, case, rows)


def _one(request: Request, case: Case) -> int:
    return 1


def _tokens(request: Request, case: Case) -> int:
    return request.query_len


def _prefill_tokens(request: Request, case: Case) -> int:
    return request.query_len if request.phase == "prefill" else 0


def _keys(request: Request, case: Case) -> int:
    return request.seq_len if case.options.keys.key_scope == "all" or request.phase == "prefill" else 0


_ITEMS: dict[str, Callable[[Request, Case], int]] = {
    "token": _tokens,
    "slot": _tokens,
    "selected_key": _tokens,
    "expert_of_token": _tokens,
    "prefill_token": _prefill_tokens,
    "request": _one,
    "key_row": _keys,
}
"""How many items each request has on an axis."""

_WHOLE = ("cache_slot", "chunk", "step", "work_item", "worker_start")
"""Axes on which no element is one request's."""
