"""Oracles of pages that are wrong in one way."""

from collections.abc import Sequence

from cumae.oracle import KvIndices, PageTable, kv_indices, page_table
from cumae.oracle.model.marks import UNTOUCHED

Table = Sequence[Sequence[int]]


def window_of_one_token_more(
    block_table: Table,
    row_index: Sequence[int],
    context_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    tokens_per_entry: int,
    num_page_columns: int,
    window: int = 0,
) -> PageTable:
    """The first token sees ``window`` positions before its own, and its own."""
    contexts = [context_len - 1 for context_len in context_lens]
    rows = (block_table, row_index, contexts, seq_lens, num_requests)
    return page_table(*rows, tokens_per_entry, num_page_columns, window)


def columns_of_tokens_before_the_last(
    block_table: Table,
    row_index: Sequence[int],
    context_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    tokens_per_entry: int,
    num_page_columns: int,
) -> PageTable:
    """A page that the last token begins is left out."""
    lens = [max(seq_len - 1, 0) for seq_len in seq_lens]
    rows = (block_table, row_index, context_lens, lens, num_requests)
    return page_table(*rows, tokens_per_entry, num_page_columns)


def full_page_without_a_token(
    block_table: Table,
    row_index: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    block_size: int,
    num_page_indices: int,
    window: int = 0,
) -> KvIndices:
    """The last page of a request without tokens is full, as Python's remainder of -1 has it."""
    rows = (block_table, row_index, seq_lens, num_requests, block_size, num_page_indices)
    lens = [(length - 1) % block_size + 1 for length in seq_lens]
    return kv_indices(*rows, window)._replace(kv_last_page_len=lens)


def pages_of_as_many_tokens(
    block_table: Table,
    row_index: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    block_size: int,
    num_page_indices: int,
    window: int = 0,
) -> KvIndices:
    """A window has as many pages as its tokens fill, wherever it begins."""
    whole = kv_indices(block_table, row_index, seq_lens, num_requests, block_size, num_page_indices)
    found = KvIndices([0], [], whole.kv_last_page_len)
    for b, seq_len in enumerate(seq_lens):
        first, stop = whole.kv_indptr[b : b + 2]
        count = -(-min(seq_len, window or seq_len) // block_size)
        found.kv_indices.extend(whole.kv_indices[max(stop - count, first) : stop])
        found.kv_indptr.append(len(found.kv_indices))
    found.kv_indices.extend([UNTOUCHED] * (num_page_indices - len(found.kv_indices)))
    return found
