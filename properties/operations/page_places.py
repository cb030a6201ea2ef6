"""The places of elements that are pages: a column of a request, or one page of a list of pages."""

from cumae.oracle import Case, Request
from cumae.properties.operations.places import Place, Placing, Seen


def num_pages(request: Request, case: Case) -> int:
    """Return the pages that hold keys of a request, those in its window if the case has one."""
    size, window = case.batch.block_size, case.options.keys.window
    first = max(request.seq_len - window, 0) // size if window else 0
    return -(-request.seq_len // size) - first


def _column(case: Case, index: int, seen: Seen) -> Place:
    b = index // max(case.num_page_columns, 1)
    return Place(b) if b < len(case.batch.requests) else Place()


def _column_text(case: Case, index: int, seen: Seen) -> str:
    b, column = divmod(index, max(case.num_page_columns, 1))
    if b >= len(case.batch.requests):
        return f"column {column} of padded request {b}"
    size = case.tokens_per_entry
    return _page_text(case, b, column, size, seen)


def _page(case: Case, index: int, seen: Seen) -> Place:
    found = _found(case, index)
    return Place() if found is None else Place(found[0])


def _list_text(case: Case, index: int, seen: Seen) -> str:
    found = _found(case, index)
    if found is None:
        return f"entry {index}: behind the last page"
    b, i = found
    request, size = case.batch.requests[b], case.batch.block_size
    column = -(-request.seq_len // size) - num_pages(request, case) + i
    return f"page {i} of the list: {_page_text(case, b, column, size, seen)}"


def _found(case: Case, index: int) -> tuple[int, int] | None:
    """Return the request of an entry of the list of pages, and the entry's number within the request."""
    for b, request in enumerate(case.batch.requests):
        count = num_pages(request, case)
        if index < count:
            return b, index
        index -= count
    return None


def _page_text(case: Case, b: int, column: int, size: int, seen: Seen) -> str:
    row = f", table row {seen.rows[b]}" if seen.rows else ""
    stop = min((column + 1) * size, case.batch.requests[b].seq_len)
    what = f"positions {column * size}-{stop - 1}" if column * size < stop else "no position"
    block_id = _block_of(case, b, column)
    block = "" if block_id < 0 else f", block {block_id + seen.raised_by}"
    return f"column {column}: request {b}{row}, {what}{block}"


def _block_of(case: Case, b: int, column: int) -> int:
    """Return the manager's block in a column of the kernel's table, -1 if there is none."""
    block_ids = case.batch.requests[b].block_ids
    at = column // (case.batch.block_size // case.kernel_block_size)
    return block_ids[at] if at < len(block_ids) else -1


PAGE_COLUMN = Placing(_column, _column_text)
LISTED_PAGE = Placing(_page, _list_text)
