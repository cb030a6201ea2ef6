"""Move cases to addresses beyond 2^31 elements."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from cumae.oracle import Case, Request
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.cases.draws import renamed
from cumae.properties.dialects.cumae import row_dtype
from cumae.properties.dialects.heads import page_dtype
from cumae.properties.dialects.held import ITEM_BYTES

_SPAN = 2**31
_COLUMNS = 2**20
"""Columns of a table whose rows pass 2^31: a request of a million tokens, one per column."""
_MOST_BYTES = 2**34 + 2**30
"""Largest size of a cache of keys and values, which must fit on a GPU."""
_POOL = 2**26
"""Most slots of a promised pool that are reached: a function may make a tensor with an element for each."""


def _largest_id(case: Case) -> int:
    return max((max(r.block_ids, default=0) for r in case.batch.requests), default=0)


def room_for_ids(case: Case) -> int:
    """Return by how much block ids may grow, so that the ids of their parts still fit in 32 bits."""
    parts = case.batch.block_size // case.kernel_block_size
    return max(INT32_MAX // parts - _largest_id(case) - 1, 0)


def elements_of_block(case: Case, features: Collection[str]) -> int:
    """Return the elements of one block in a cache of an operation with such features, else its slots."""
    heads, block_size = case.options.heads, case.batch.block_size
    if "head_format" in features:
        return block_size * heads.num_heads * max(heads.head_dim, heads.value_dim)
    return block_size * row_dtype(case)[1] if "row_format" in features else block_size


def large_slots(case: Case) -> Iterator[Case]:
    """Yield ids whose product with the block size passes 2^31, and far table rows."""
    yield from large_ids(case)
    yield from far_table_rows(case)


def large_ids(case: Case) -> Iterator[Case]:
    """Yield ids whose product with the block size passes 2^31."""
    yield renamed(case, min(_SPAN // case.batch.block_size + 1, room_for_ids(case)))


def largest_slots(case: Case) -> Iterator[Case]:
    """Yield ids whose slots are the largest that an int32 output holds, and far table rows.

    The slots of all ranks fit, because engines have tables of them.
    """
    most = _SPAN // case.batch.tokens_per_block - 1 - _largest_id(case)
    if most > 0:
        yield renamed(case, min(most, room_for_ids(case)))
    yield from far_table_rows(case)


def far_table_rows(case: Case) -> Iterator[Case]:
    """Yield table rows whose offset passes 2^31 elements: in a dense table of many rows, as engines hold it.

    If rows are looked up, these stand after 2048 unused rows. If the row is the request, 2048 idle requests
    come first; another case keeps the requests in a table with gaps.
    """
    plain = case.laid_out(num_spare_rows=0, num_padding_requests=0, index_dtype="int32")
    dense, ahead = plain.laid_out(min_table_columns=_COLUMNS), _SPAN // _COLUMNS
    requests, rows = case.batch.requests, case.layout.row_index
    if rows is not None:
        if max(rows, default=-1) >= 0:
            rows = tuple(row + ahead if row >= 0 else row for row in rows)
            yield dense.laid_out(row_index=rows)
        return
    gap = _gap(len(requests) - 1)
    if gap:
        yield plain.laid_out(table_row_gap=gap)
    if case.batch.num_tokens and room_for_ids(case):
        idle = [replace(requests[0], context_len=1, query_len=0, block_ids=(_largest_id(case) + 1,))] * ahead
        batch = replace(case.batch, requests=(*idle, *requests))
        yield replace(dense, batch=batch)


def _gap(highest_row: int) -> int:
    """Return the gap that takes a row beyond 2^31 elements, 0 if a 32-bit stride cannot."""
    return _SPAN // highest_row + 1 if highest_row > 1 else 0


def far_cache_rows(case: Case) -> Iterator[Case]:
    """Yield cache rows whose offset passes 2^32 elements, and new rows past 2^31."""
    dtype, elements = row_dtype(case)[0], elements_of_block(case, {"row_format"})
    yield from _far_blocks(case, elements, elements * ITEM_BYTES[dtype])
    yield from _far_new_rows(case)


def far_pages(case: Case) -> Iterator[Case]:
    """Yield pages whose offset passes 2^32 elements, and new keys and values past 2^31."""
    yield from _far_pages(case)
    yield from _far_new_rows(case)


def far_read_pages(case: Case) -> Iterator[Case]:
    """Yield pages whose offset passes 2^32 elements, and far table rows."""
    yield from _far_pages(case)
    yield from far_table_rows(case)


def _far_new_rows(case: Case) -> Iterator[Case]:
    gap = _gap(case.batch.num_tokens - 1)
    if gap:
        yield case.laid_out(num_padding_tokens=0, num_spare_tokens=0, new_row_gap=gap, key_row_gap=gap)


def _far_pages(case: Case) -> Iterator[Case]:
    """Yield larger ids of pages, of keys alone or with values; scales only make them larger."""
    heads, item = case.options.heads, ITEM_BYTES[page_dtype(case)]
    each = case.batch.block_size * heads.num_heads
    num_bytes = each * (heads.head_dim + heads.value_dim) * item
    yield from _far_blocks(case, elements_of_block(case, {"head_format"}), num_bytes)


def _far_blocks(case: Case, num_elements: int, num_bytes: int) -> Iterator[Case]:
    """Yield ids of blocks of so many elements, whose offset passes 2^32, or 2^31 if that takes too much."""
    for span in (2 * _SPAN, _SPAN):
        more = span // num_elements + 1
        if more <= room_for_ids(case) and (more + case.num_cache_blocks) * num_bytes <= _MOST_BYTES:
            yield renamed(case, more)
            return


def large_rows(case: Case) -> Iterator[Case]:
    """Yield block ids whose offset in the cache passes 2^31 and 2^32 elements, and key rows beyond 2^31.

    Rows are dense, because some engines support no gaps, and so wide that ids stay 32-bit.
    """
    if row_dtype(case)[1] < 4:
        case = replace(case, options=case.options.having(kv_lora_rank=512, qk_rope_head_dim=64))
    elements = elements_of_block(case, {"row_format"})
    for span in (_SPAN, 2 * _SPAN):
        yield renamed(case, span // elements + 1)
    plain = case.laid_out(num_padding_tokens=0, key_slack=0)
    gap = _gap(max(case.num_keys, case.batch.num_tokens) - 1)
    if gap:
        yield plain.laid_out(new_row_gap=gap, key_row_gap=gap)


def with_small_slots(case: Case) -> Case:
    """Return the case with ids lowered until slots are below 2^31, unchanged if they do not fit."""
    return _lowered(case, _SPAN // case.batch.block_size - 1)


def within_pool(case: Case, max_block_id: int) -> Case:
    """Return the case with ids lowered to those of a promised pool, or to its first 2^26 slots."""
    return _lowered(case, min(max_block_id, _POOL // case.batch.block_size - 1))


def _lowered(case: Case, largest: int) -> Case:
    """Return the case with ids lowered until the largest is this one, unchanged if they do not fit."""
    ids = [i for request in case.batch.requests for i in request.block_ids if i >= 0]
    beyond = _largest_id(case) - largest
    return renamed(case, -beyond) if 0 < beyond <= min(ids, default=0) else case


def has_large_slots(case: Case) -> bool:
    """Return whether a slot of a case is 2^31 or more."""
    return (_largest_id(case) + 1) * case.batch.block_size > _SPAN


def without_empty(case: Case) -> Case:
    """Return the case with one token, in a block of its own, for each idle request."""
    requests, first = list(case.batch.requests), _largest_id(case) + 1
    if room_for_ids(case) <= len(requests):
        return case
    for b, request in enumerate(requests):
        if not request.query_len:
            requests[b] = Request(0, 1, (first + b,))
    return replace(case, batch=replace(case.batch, requests=tuple(requests)))
