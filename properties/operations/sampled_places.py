"""The place of a sample and of a verified draft: its request, its row and its position."""

from collections.abc import Callable, Iterator

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of, num_logits_of
from cumae.properties.operations.places import TOKEN, Place, Placing, Seen


def num_logits(request: Request, case: Case) -> int:
    """Return the rows at which a request samples."""
    drafts = case.options.drafts
    return num_logits_of(request, drafts.max_drafts, drafts.draft_seed)


def num_drafts(request: Request, case: Case) -> int:
    """Return the drafts that a request verifies."""
    drafts = case.options.drafts
    return num_drafts_of(request, drafts.max_drafts, drafts.draft_seed)


def _rows(case: Case, items: Callable[[Request, Case], int]) -> Iterator[int]:
    """Yield the row of the step that each item is about: the first of those at which a request samples."""
    stop = 0
    for request in case.batch.requests:
        stop += request.query_len
        first = stop - num_logits(request, case)
        yield from range(first, first + items(request, case))


def _placing(items: Callable[[Request, Case], int], what: str) -> Placing:
    def row_of(case: Case, index: int) -> int | None:
        return next((row for i, row in enumerate(_rows(case, items)) if i == index), None)

    def place(case: Case, index: int, seen: Seen) -> Place:
        row = row_of(case, index)
        return Place() if row is None else TOKEN.place(case, row, seen)

    def text(case: Case, index: int, seen: Seen) -> str:
        row = row_of(case, index)
        if row is None:
            return f"{what} {index}: behind the last one of the step"
        return f"{what} {index}: {TOKEN.text(case, row, seen)}"

    return Placing(place, text)


LOGIT = _placing(num_logits, "sample")
DRAFT = _placing(num_drafts, "verified draft")
