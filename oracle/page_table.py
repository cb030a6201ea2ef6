"""The block table that attention reads: the blocks of each live request, and zeros."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import require_int


class PageTable(NamedTuple):
    """``page_table`` int32 [R * num_page_columns]: the block in each column, row after row."""

    page_table: list[int]


def page_table(
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    context_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    tokens_per_entry: int,
    num_page_columns: int,
    window: int = 0,
) -> PageTable:
    """Return one row for each request, padded ones included, with the blocks of its positions.

    ``context_lens``, ``seq_lens`` int [R] in tokens; ``row_index`` int [R]: the row of ``block_table``
    int [rows, width] that lists the request's blocks, -1 for none. ``num_requests``: the live requests,
    which stand first. An entry stands for ``tokens_per_entry`` positions.

    A column with a position below seq_len holds its block, or -1 if the block is missing. If each token sees
    ``window`` keys, its own included, no token of the step sees positions below
    ``context_len - (window - 1)``: columns of such positions only hold 0. Columns without a position, columns
    past the table's width, rows of -1 and rows of padded requests hold 0 too.

    Raises ``ValueError`` for more live requests than lengths, and for entries of less than one token.
    Sources: vLLM's ``_gather_block_tables_kernel``; SGLang's ``normal_decode_set_metadata``.

    >>> page_table([[7, 3, 5], [9, 9, 9], [2, 8, 9]], [0, 1, 2], [9, 0, 4], [10, 0, 5], 3, 4, 4, window=2)
    PageTable(page_table=[0, 0, 5, 0, 0, 0, 0, 0, 2, 8, 0, 0])
    """
    require_int("tokens_per_entry", tokens_per_entry, 1)
    require_int("num_requests", num_requests, 0, len(seq_lens))
    pages: list[int] = []
    for b, (context_len, seq_len) in enumerate(zip(context_lens, seq_lens, strict=True)):
        is_live = b < num_requests and row_index[b] >= 0
        row = block_table[row_index[b]] if is_live else []
        first_seen = max(context_len - (window - 1), 0) if window else 0
        held = min(-(-seq_len // tokens_per_entry), len(row), num_page_columns)
        for column in range(held):
            is_seen = (column + 1) * tokens_per_entry > first_seen
            pages.append(max(row[column], -1) if is_seen else 0)
        pages.extend([0] * (num_page_columns - held))
    return PageTable(pages)
