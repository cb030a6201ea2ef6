"""A step in SGLang's format: its mode, the rows of its tensors, and the tables of its pool."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from cumae.oracle import Batch, Case, Inputs, Request
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.dialects.held import IntArray, Ints, in_table
from cumae.properties.dialects.sglang.capture import DUMP_PAGE, DUMP_ROW, PADDED_SEQ_LEN

ForwardMode = Literal["extend", "decode", "verify"]
MOST_SPARE_TOKENS = 1024
"""Most positions by which spare pages widen the pool's rows."""


def forward_mode(batch: Batch) -> ForwardMode:
    """Return the mode in which SGLang runs a batch.

    A batch of decodes is ``decode`` if each computes one token, ``verify`` if each computes the same number,
    at least 2. Everything else is ``extend``, including decodes mixed with prefills.
    """
    counts = {request.query_len for request in batch.requests}
    all_decode = all(request.phase == "decode" for request in batch.requests)
    if not all_decode or len(counts) != 1 or counts == {0}:
        return "extend"
    return "decode" if counts == {1} else "verify"


def draft_token_num(case: Case) -> int:
    """Return the tokens that each request verifies, 0 in the other modes."""
    return case.batch.requests[0].query_len if forward_mode(case.batch) == "verify" else 0


def num_rows(case: Case) -> int:
    """Return the number of rows of per-token tensors.

    If all requests have the same number of tokens, padding adds whole requests of that number.
    """
    if forward_mode(case.batch) == "extend":
        return case.num_tokens_padded
    return case.num_requests_padded * case.batch.requests[0].query_len


def extend_prefix_lens(case: Case) -> list[int]:
    """Return the cached tokens of each request, 0 for padded ones."""
    return [request.context_len for request in case.batch.requests] + [0] * case.layout.num_padding_requests


def cache_seqlens(case: Case) -> list[int]:
    """Return the lengths after the step in every mode; padded requests get drafts, too."""
    lens = [request.seq_len for request in case.batch.requests]
    return lens + [PADDED_SEQ_LEN + draft_token_num(case)] * case.layout.num_padding_requests


def padded_rows(values: Sequence[Any], case: Case, padding: Any) -> list[Any]:
    """Return the values of live tokens, then padding up to the rows of the step."""
    live = values[: case.batch.num_tokens]
    return [*live, *[padding] * (num_rows(case) - len(live))]


def pool_rows(case: Case) -> list[int]:
    """Return the pool row of each request: row 0 is the dump's, and the map is never the identity.

    SGLang gives row 0 to no request; a drawn request without a row has it here.
    """
    rows, count = case.layout.row_index, len(case.batch.requests)
    if rows is None:
        return [1 + (b + 1) % count for b in range(count)]
    return [row + 1 for row in rows]


def slots_of(case: Case, request: Request) -> IntArray:
    """Return the slot of each token of a request."""
    size = case.batch.block_size
    positions = np.arange(request.seq_len, dtype=np.int64)
    blocks = np.array(request.block_ids, dtype=np.int64)[positions // size]
    return blocks * size + positions % size


def num_spare_pages(case: Case) -> int:
    """Return the pages of a row of the pool beyond those of the longest request."""
    return min(case.layout.num_spare_columns, MOST_SPARE_TOKENS // case.batch.block_size)


def req_to_token(inputs: Inputs) -> Ints:
    """Return the pool's rows: zeros in row 0, a slot for each token, garbage after and in unused rows.

    A row reaches to the first position of its last spare page.
    """
    case, size = inputs.case, inputs.case.batch.block_size
    layout, requests, rows = case.layout, case.batch.requests, pool_rows(case)
    longest = max(cache_seqlens(case), default=0)
    last_page = -(-longest // size) + num_spare_pages(case) - 1
    width = max(longest + layout.num_spare_columns, last_page * size + 1, 1)
    table = _unused((max(rows, default=0) + 1 + layout.num_spare_rows, width), case)
    table[DUMP_ROW] = 0
    for row, request in zip(rows, requests, strict=True):
        if row != DUMP_ROW:
            table[row, : request.seq_len] = slots_of(case, request)
    return in_table(Ints(table, "int32", (1, 1)), layout)


def page_table(inputs: Inputs) -> Ints:
    """Return a row of pages for each request, then garbage; padded requests read the dump page."""
    case = inputs.case
    requests, rows = case.batch.requests, pool_rows(case)
    counts = [case.batch.num_live_blocks(request) for request in requests]
    width = max((-(-n // case.batch.block_size) for n in cache_seqlens(case)), default=0)
    width += case.layout.num_spare_columns
    table = _unused((case.num_requests_padded, width), case)
    table[len(requests) :] = DUMP_PAGE
    for b, (row, count) in enumerate(zip(rows, counts, strict=True)):
        table[b, :count] = DUMP_PAGE if row == DUMP_ROW else requests[b].block_ids[:count]
    return in_table(Ints(table, "int32", (1, 1)), case.layout)


def page_table_1(inputs: Inputs) -> Ints:
    """Return rows by request in ``extend``, else by token: a slot for each position, then garbage."""
    case = inputs.case
    requests = case.batch.requests
    each = 1 if forward_mode(case.batch) == "extend" else requests[0].query_len
    width = max(cache_seqlens(case), default=0) + case.layout.num_spare_columns
    table = _unused((case.num_requests_padded, width), case)
    table[len(requests) :] = 0
    for b, (row, request) in enumerate(zip(pool_rows(case), requests, strict=True)):
        table[b, : request.seq_len] = 0 if row == DUMP_ROW else slots_of(case, request)
    return in_table(Ints(table.repeat(each, axis=0), "int32", (1, 1)), case.layout)


def _unused(shape: tuple[int, int], case: Case) -> IntArray:
    """Return an array of garbage; plausible values are slots of requests."""
    largest = max((max(request.block_ids, default=0) for request in case.batch.requests), default=0)
    fill = {"minus_one": -1, "zero": 0, "huge": INT32_MAX}
    if case.layout.garbage in fill:
        return np.full(shape, fill[case.layout.garbage], dtype=np.int64)
    places = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    return (7 * places + 1) % min((largest + 1) * case.batch.block_size, INT32_MAX)
