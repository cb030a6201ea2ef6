"""The pages of each request's keys in one list (CSR), and the tokens in the last page of each."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.marks import UNTOUCHED, Mark
from cumae.oracle.model.rules import require_int


class KvIndices(NamedTuple):
    """int32: ``kv_indptr`` [R + 1], ``kv_indices`` [num_page_indices], ``kv_last_page_len`` [R]."""

    kv_indptr: list[int]
    kv_indices: list[int | Mark]
    kv_last_page_len: list[int]


def kv_indices(
    block_table: Sequence[Sequence[int]],
    row_index: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    block_size: int,
    num_page_indices: int,
    window: int = 0,
) -> KvIndices:
    """Return the pages that hold keys of each request, request after request.

    ``seq_lens`` int [R] in tokens; ``row_index`` int [R]: the row of ``block_table`` int [rows, width] that
    lists the request's blocks of ``block_size`` tokens, -1 for none. ``num_requests``: the live requests,
    which stand first. ``num_page_indices``: entries of the buffer.

    The keys of a request are its positions, or the last ``window`` of them if that is not 0. Pages stand in
    order of position. A missing block, one past the table's width and each block of a row of -1 is -1.
    ``kv_last_page_len`` counts the tokens up to seq_len in the last page, 0 without a page. Padded requests
    have no page; entries at and past ``kv_indptr[R]`` keep their values.

    Raises ``ValueError`` for more live requests than lengths, and for a buffer that is too short.
    Sources: FlashInfer's paged KV layout; vLLM's ``_copy_page_indices_kernel``.

    >>> kv_indices([[7, 3], [9, 9], [2, 8]], [0, 1, 2], [5, 0, 4], 3, block_size=4, num_page_indices=4)
    KvIndices(kv_indptr=[0, 2, 2, 3], kv_indices=[7, 3, 2, UNTOUCHED], kv_last_page_len=[1, 0, 4])
    """
    require_int("block_size", block_size, 1)
    require_int("num_requests", num_requests, 0, len(seq_lens))
    indptr: list[int] = [0]
    pages: list[int | Mark] = []
    last_lens: list[int] = []
    for b, length in enumerate(seq_lens):
        seq_len = length if b < num_requests else 0
        start = max(seq_len - window, 0) if window else 0
        first, num_columns = start // block_size, -(-seq_len // block_size)
        pages += blocks_of(block_table, row_index[b], first, num_columns)
        indptr.append(len(pages))
        last_lens.append(seq_len - (num_columns - 1) * block_size if first < num_columns else 0)
    require_int("num_page_indices", num_page_indices, len(pages))
    return KvIndices(indptr, pages + [UNTOUCHED] * (num_page_indices - len(pages)), last_lens)


def blocks_of(block_table: Sequence[Sequence[int]], row: int, first: int, stop: int) -> list[int]:
    """Return the blocks from column ``first`` to before ``stop`` of a row, -1 where there is none."""
    held = block_table[row][first:stop] if first < stop and row >= 0 else []
    return [i if i >= 0 else -1 for i in held] + [-1] * (stop - first - len(held))
