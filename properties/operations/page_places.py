"""The places of elements that are pages: a column of a request's row, or an entry of a list of pages."""

from functools import lru_cache

from cumae.oracle import Case, Request, page_units
from cumae.oracle.model.heads import Heads
from cumae.properties.operations.places import CACHE_SLOT, Place, Placing, Seen


def num_pages(request: Request, case: Case) -> int:
    """Return the pages that hold keys of a request, those in its window if the case has one."""
    return len(_listed(request, case))


def _listed(request: Request, case: Case) -> range:
    """Return the columns of the pages that hold keys of a request."""
    size, window = case.batch.block_size, case.options.keys.window
    return range(max(request.seq_len - window, 0) // size if window else 0, -(-request.seq_len // size))


def _column(case: Case, index: int, seen: Seen) -> Place:
    b = index // max(case.num_page_columns, 1)
    return Place(b) if b < len(case.batch.requests) else Place()


def _column_text(case: Case, index: int, seen: Seen) -> str:
    b, column = divmod(index, max(case.num_page_columns, 1))
    if b >= len(case.batch.requests):
        return f"entry {index}: padded request {b}, column {column}"
    return f"entry {index}: {_page_text(case, b, column, case.tokens_per_entry, seen)}"


def _entry(case: Case, index: int, seen: Seen) -> Place:
    found = _listed_at(case, index)
    return Place() if found is None else Place(found[0])


def _entry_text(case: Case, index: int, seen: Seen) -> str:
    found = _listed_at(case, index)
    if found is None:
        return f"entry {index}: behind the last page"
    return f"entry {index}: {_page_text(case, *found, case.batch.block_size, seen)}"


def _listed_at(case: Case, index: int) -> tuple[int, int] | None:
    """Return request and column of an entry of the list of pages, None behind the last page."""
    for b, request in enumerate(case.batch.requests):
        columns = _listed(request, case)
        if index < len(columns):
            return b, columns[index]
        index -= len(columns)
    return None


def _page_text(case: Case, b: int, column: int, size: int, seen: Seen) -> str:
    row = f", table row {seen.rows[b]}" if seen.rows else ""
    start, stop = column * size, min((column + 1) * size, case.batch.requests[b].seq_len)
    positions = f"positions {start}-{stop - 1}" if start < stop else "no position"
    block_id = _block_of(case, b, column)
    block = "" if block_id < 0 else f", block {block_id + seen.raised_by}"
    return f"request {b}{row}, column {column}, {positions}{block}"


def _block_of(case: Case, b: int, column: int) -> int:
    """Return the manager's block in a column of the kernel's table, -1 if there is none."""
    block_ids = case.batch.requests[b].block_ids
    at = column // (case.batch.block_size // case.kernel_block_size)
    return block_ids[at] if at < len(block_ids) else -1


def _placing_in_pages(only: str) -> Placing:
    """Return the placing of units of pages, or of those of one kind that stand in a cache of their own."""

    def place(case: Case, index: int, seen: Seen) -> Place:
        return CACHE_SLOT.place(case, _parts_of(case, index, only)[0], seen)

    def text(case: Case, index: int, seen: Seen) -> str:
        slot, kind, head, unit = _parts_of(case, index, only)
        return f"unit {index}: {kind} of head {head}, unit {unit}, {CACHE_SLOT.text(case, slot, seen)}"

    return Placing(place, text)


def _parts_of(case: Case, index: int, only: str) -> tuple[int, str, int, int]:
    """Return slot, kind, head and number of a unit of memory. ``only``: the kind of all units, or ""."""
    size = case.batch.block_size
    order = _order_of(case.options.heads, size, only)
    block, place = divmod(index, len(order))
    kind, token, head, unit = order[place]
    return block * size + token, kind, head, unit


@lru_cache(maxsize=1)
def _order_of(heads: Heads, size: int, only: str) -> list[tuple[str, int, int, int]]:
    """Return kind, token, head and unit of each entry of a page, cached for reports."""
    sizes = (heads.num_heads, heads.key_units, heads.value_units, heads.group_items)
    return [unit for unit in page_units(heads.page_order, size, *sizes) if only in ("", unit[0])]


def num_read(request: Request, case: Case) -> int:
    """Return the positions whose keys are gathered, those in the window if the case has one."""
    window = case.options.keys.window
    return min(request.seq_len, window) if window else request.seq_len


def _read_at(case: Case, row: int) -> tuple[int, int] | None:
    """Return request and position of a gathered row, None behind the last."""
    for b, request in enumerate(case.batch.requests):
        count = num_read(request, case)
        if row < count:
            return b, request.seq_len - count + row
        row -= count
    return None


def _placing_of_read(kind: str) -> Placing:
    """Return the placing of units of gathered keys, or of values."""

    def units(case: Case) -> int:
        heads = case.options.heads
        return heads.key_units if kind == "key" else heads.value_units

    def place(case: Case, index: int, seen: Seen) -> Place:
        found = _read_at(case, index // (case.options.heads.num_heads * units(case)))
        return Place() if found is None else Place(found[0], position=found[1])

    def text(case: Case, index: int, seen: Seen) -> str:
        row, rest = divmod(index, case.options.heads.num_heads * units(case))
        head, unit = divmod(rest, units(case))
        what, found = f"row {row}, {kind} of head {head}, unit {unit}", _read_at(case, row)
        if found is None:
            return f"{what}: behind the last {kind}"
        column = found[1] // case.batch.block_size
        return (
            f"{what}: {_page_text(case, found[0], column, case.batch.block_size, seen)}, position {found[1]}"
        )

    return Placing(place, text)


PAGE_COLUMN = Placing(_column, _column_text)
LISTED_PAGE = Placing(_entry, _entry_text)
PAGE_UNIT = _placing_in_pages("")
KEY_PAGE_UNIT, VALUE_PAGE_UNIT = _placing_in_pages("key"), _placing_in_pages("value")
READ_KEY = _placing_of_read("key")
READ_VALUE = _placing_of_read("value")
