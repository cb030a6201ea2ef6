"""The memory layout of a batch in an engine: padding, table rows and tails, strides, widths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal

from cumae.oracle.model.rules import require, require_bool, require_choice, require_int

GarbageKind = Literal["minus_one", "zero", "plausible", "huge"]
GARBAGE_KINDS: tuple[GarbageKind, ...] = ("minus_one", "zero", "plausible", "huge")
MOST_ROWS = 2**22
TableOrder = Literal["row", "column"]
TABLE_ORDERS: tuple[TableOrder, ...] = ("row", "column")
IndexDtype = Literal["int32", "int64", "mixed"]
INDEX_DTYPES: tuple[IndexDtype, ...] = ("int32", "int64", "mixed")
DENSE: Mapping[str, Any] = {
    "table_row_gap": 0,
    "table_row_multiple": 1,
    "table_column_step": 1,
    "table_order": "row",
    "cache_row_gap": 0,
    "cache_block_gap": 0,
    "cache_in_turns": False,
    "new_row_gap": 0,
    "key_row_gap": 0,
    "vector_step": 1,
    "storage_offset": 0,
}
"""The strides of a layout without gaps."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything about a step that must not change its answer, only the place of the answer in memory.

    Sizes are given as slack over the batch's need, so that a layout stays valid for a smaller batch.
    ``num_padding_tokens``, ``num_padding_requests``: rows behind the live rows. ``num_padding_slots``:
    entries of the slot buffer beyond the padded tokens. ``key_slack``: rows of the key buffers beyond the
    needed ones; a negative number drops the last rows.

    ``row_index``: the block-table row of each request, -1 for none; ``None`` is the identity.
    ``num_spare_rows``, ``num_spare_columns``: table rows and columns that belong to no request.
    ``min_table_columns``: least number of columns of a table of tokens or blocks; added columns hold no
    value. ``num_spare_blocks``: blocks of the cache beyond the largest id. ``num_spare_tokens``: rows of
    persistent buffers beyond the padded tokens. ``context_slack``: the host's bound on the contexts minus the
    longest context. ``page_slack``: columns of the page table beyond those of the longest request; a negative
    number drops the last columns.

    ``table_row_gap``: elements between two rows of the table. ``table_row_multiple``: what the distance from
    one row to the next is rounded up to a multiple of, as in columns of a wider table. ``table_column_step``:
    elements from one column to the next. ``table_order``: in ``column`` order a column's entries are
    neighbours, so the step leads from row to row, and gap and multiple are those of columns.
    ``cache_row_gap``, ``cache_block_gap``: elements between two rows of a block, and between two blocks
    beyond that. ``cache_in_turns``: whether each block is followed by one of another cache, as keys by values
    in one tensor. ``new_row_gap``: between two new rows, of
    latents or of logits. ``key_row_gap``: between two rows of the keys, and of the rotary part of new rows
    where an engine holds it in a tensor of its own. ``vector_step``: elements between two entries of the
    one-dimensional tensors that may be views, and one more of each further view; the rows of others have one
    less between them. ``storage_offset``: elements by which each tensor begins later than at an address with
    the largest alignment.

    ``garbage``: the don't-care fill of places that must not be read. ``index_dtype``: width of lengths, rows
    and ids; ``mixed``: contexts, sums of lengths and rows have 64 bits, as in SGLang, and the others 32.
    ``host_lens``: whether the host knows the lengths of the step.
    """

    num_padding_tokens: int = 0
    num_padding_requests: int = 0
    num_padding_slots: int = 0
    key_slack: int = 0
    row_index: tuple[int, ...] | None = None
    num_spare_rows: int = 0
    num_spare_columns: int = 0
    num_spare_blocks: int = 0
    table_row_gap: int = 0
    table_row_multiple: int = 1
    table_column_step: int = 1
    table_order: TableOrder = "row"
    cache_row_gap: int = 0
    cache_block_gap: int = 0
    cache_in_turns: bool = False
    new_row_gap: int = 0
    key_row_gap: int = 0
    vector_step: int = 1
    storage_offset: int = 0
    garbage: GarbageKind = "minus_one"
    index_dtype: IndexDtype = "int32"
    num_spare_tokens: int = 0
    context_slack: int = 0
    page_slack: int = 0
    host_lens: bool = True
    min_table_columns: int = 0

    def __post_init__(self) -> None:
        # Layouts are made by the thousand: one look tells that nothing is wrong with most of them.
        for names, most in ((_COUNTS, MOST_ROWS), (_GAPS, 2**40)):
            values = _read[names](self)
            if set(map(type, values)) != {int} or min(values) < 0 or max(values) > most:
                for name, value in zip(names, values, strict=True):
                    require_int(name, value, 0, most)
        require_int("key_slack", self.key_slack, -(2**31))
        require_int("page_slack", self.page_slack, -(2**31), MOST_ROWS)
        require_int("table_column_step", self.table_column_step, 1, 2**20)
        require_int("table_row_multiple", self.table_row_multiple, 1, 2**20)
        require_int("vector_step", self.vector_step, 1, 1024)
        require_int("storage_offset", self.storage_offset, 0, 1024)
        require_choice("table_order", self.table_order, TABLE_ORDERS)
        require_choice("garbage", self.garbage, GARBAGE_KINDS)
        require_choice("index_dtype", self.index_dtype, INDEX_DTYPES)
        require_bool("host_lens", self.host_lens)
        require_bool("cache_in_turns", self.cache_in_turns)
        if self.row_index is None:
            return
        is_list = isinstance(self.row_index, Sequence) and not isinstance(self.row_index, str)
        require(is_list, "row_index", self.row_index, "be a list of integers or null")
        object.__setattr__(self, "row_index", tuple(self.row_index))
        for b, row in enumerate(self.row_index):
            if type(row) is not int or not -1 <= row <= MOST_ROWS:
                require_int(f"row_index[{b}]", row, -1, MOST_ROWS)
        rows = [row for row in self.row_index if row >= 0]
        require(
            len(set(rows)) == len(rows), "row_index", self.row_index, "give each request a row of its own"
        )

    def having(self, **values: Any) -> "Layout":
        """Return the layout with other values of some fields."""
        return Layout(**(dict(zip(_NAMES, _read[_NAMES](self), strict=True)) | values))

    @property
    def strides(self) -> dict[str, Any]:
        """The fields that only say how far apart elements lie in memory, with their values."""
        return {name: getattr(self, name) for name in DENSE}


_COUNTS = (
    "num_padding_tokens",
    "num_padding_requests",
    "num_padding_slots",
    "num_spare_rows",
    "num_spare_columns",
    "num_spare_blocks",
    "num_spare_tokens",
    "context_slack",
    "min_table_columns",
)
_GAPS = tuple(name for name in DENSE if name.endswith("_gap"))
_NAMES = tuple(one.name for one in fields(Layout))
_read = {names: attrgetter(*names) for names in (_COUNTS, _GAPS, _NAMES)}
