"""The elements of an output that belong to each request of a step, by the output's axis."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cumae.oracle import Case, Request
from cumae.properties.comparing.masks import Mask
from cumae.properties.operations.axes import Axis
from cumae.properties.running.words import Words


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of an output of one case, or numbers made of them.

    ``what``: their name in a sentence; ``words``: the function's values; ``wanted``: the oracle's;
    ``held``: where the oracle gives one. ``counts``: elements of each live request, in order; None if
    elements belong to no request. ``per``: elements of each boundary between requests, 0 if the part
    has no boundaries.
    """

    what: str
    words: Words
    wanted: Words
    held: Mask
    counts: Sequence[int] | None = None
    per: int = 0


def parts_of(whole: Part, axis: Axis, per: int, case: Case) -> Iterator[Part]:
    """Yield the parts of an output whose index counts the items of an axis, ``per`` elements each.

    Yields nothing if the axis has no relation, or the output has not the length of its axis.
    """
    if axis.items is None:
        yield from [whole] if axis.is_related else []
        return
    rows = _num_rows(whole, axis, case)
    if not axis.is_related or not rows:
        return
    columns = _by_column(whole, rows) if axis.in_chunks else whole
    if axis.between:
        yield replace(columns, per=rows if axis.between == "requests" else 0)
        yield from _of_requests(_steps(whole, rows), axis.items, case, rows)
    else:
        yield from _of_requests(columns, axis.items, case, rows if axis.in_chunks else per)


def _num_rows(whole: Part, axis: Axis, case: Case) -> int:
    """Return the number of rows, one for each chunk; 0 if the length does not fit the axis."""
    if axis.extent is None or not (axis.in_chunks or axis.between == "requests"):
        return 1
    length, width = len(whole.words), axis.extent(case).num_padded
    if axis.in_chunks:
        return length // width if width and length % width == 0 else 0
    return int(length == width)


def _of_requests(part: Part, items: Callable[[Request, Case], int], case: Case, per: int) -> Iterator[Part]:
    counts = [items(request, case) * per for request in case.batch.requests]
    if sum(counts) <= len(part.words):
        yield replace(part, counts=counts)


def _by_column(whole: Part, rows: int) -> Part:
    """Return the entries column after column."""
    words, wanted, held = (a.reshape(rows, -1).T.ravel() for a in (whole.words, whole.wanted, whole.held))
    return Part(whole.what, words, wanted, held)


def _steps(part: Part, rows: int) -> Part:
    """Return the differences of neighbouring entries in each row, column after column."""
    words, wanted, held = (a.reshape(rows, -1) for a in (part.words, part.wanted, part.held))
    grown, must = (np.diff(a.astype(np.int64), axis=1).T.ravel() for a in (words, wanted))
    return Part(f"the steps of {part.what}", grown, must, (held[:, 1:] & held[:, :-1]).T.ravel())
