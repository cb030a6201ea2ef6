"""The dialect of SGLang: a slot for each token in a pool of requests, forward modes, slot 0 for dumping.

``sglang.md`` beside this file lists the names and where SGLang says so.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from cumae.oracle import ANY, GARBAGE, Batch, Case, Inputs, Request, causal_windows
from cumae.oracle.rules import INT32_MAX
from cumae.properties.dialects.dialect import Dialect, Input, NamedOutput
from cumae.properties.dialects.held import IntArray, Ints, ints
from cumae.properties.dialects.sglang_capture import DUMP_PAGE, DUMP_ROW, PADDED_SEQ_LEN, capture

ForwardMode = Literal["extend", "decode", "verify"]


def forward_mode(batch: Batch) -> ForwardMode:
    """Return the mode in which SGLang runs a batch.

    A batch of decodes is ``decode`` where each computes one token, ``verify`` where each computes
    the same number, at least 2. Everything else is ``extend``; decodes beside prefills included.
    """
    counts = {request.query_len for request in batch.requests}
    all_decode = all(request.phase == "decode" for request in batch.requests)
    if not all_decode or len(counts) != 1 or counts == {0}:
        return "extend"
    return "decode" if counts == {1} else "verify"


def _draft_token_num(case: Case) -> int:
    """Return the tokens each request verifies, 0 in the other modes."""
    return case.batch.requests[0].query_len if forward_mode(case.batch) == "verify" else 0


def num_rows(case: Case) -> int:
    """Return the rows of tensors that have one for each token.

    Where each request has as many tokens as the others, requests are padded, and padded ones have as many.
    """
    if forward_mode(case.batch) == "extend":
        return case.num_tokens_padded
    return case.num_requests_padded * case.batch.requests[0].query_len


def _rows(values: Sequence[Any], case: Case, padding: Any) -> list[Any]:
    """Return the values of live tokens, and the padding up to the rows of the step."""
    live = values[: case.batch.num_tokens]
    return [*live, *[padding] * (num_rows(case) - len(live))]


def _padded(case: Case, of: Callable[[Request], int], padding: int) -> list[int]:
    return [of(request) for request in case.batch.requests] + [padding] * case.layout.num_padding_requests


def _seq_lens(case: Case) -> list[int]:
    """Return lengths after the step; a verify step gives those before its drafts."""
    if forward_mode(case.batch) == "verify":
        return _padded(case, lambda request: request.context_len, PADDED_SEQ_LEN)
    return _padded(case, lambda request: request.seq_len, PADDED_SEQ_LEN)


def _cache_seqlens(case: Case) -> list[int]:
    """Return lengths after the step in every mode; padded requests get drafts, too."""
    return [length + _draft_token_num(case) for length in _seq_lens(case)]


def _extend_prefix_lens(case: Case) -> list[int]:
    return _padded(case, lambda request: request.context_len, 0)


def _kv_indptr(case: Case) -> list[int]:
    """Return the running sum of tokens read from the cache: an extend hands over its new ones apart."""
    extends = forward_mode(case.batch) == "extend"
    return [0, *accumulate(_extend_prefix_lens(case) if extends else _seq_lens(case))]


def _starts(inputs: Inputs) -> list[int]:
    starts: list[int] = inputs["cu_seqlens_q"]
    return starts


def _token_to_batch_idx(inputs: Inputs) -> list[Any]:
    return _rows(inputs["token_to_request"], inputs.case, GARBAGE)


def _free_behind(values: Sequence[Any], num_live: int) -> list[Any]:
    """Return the values with ANY where SGLang leaves the padding to whoever runs the step."""
    return [*values[:num_live], *[ANY] * (len(values) - num_live)]


def _expect_qo_indptr(answer: Any, inputs: Inputs) -> list[Any]:
    case = inputs.case
    live = len(case.batch.requests) + 1
    free = forward_mode(case.batch) != "extend"
    return _free_behind(answer.cu_seqlens_q, live) if free else list(answer.cu_seqlens_q)


def _pool_rows(case: Case) -> list[int]:
    """Return the pool row of each request: row 0 is the dump's, and the map is never the identity."""
    rows, count = case.layout.row_index, len(case.batch.requests)
    if rows is None:
        return [1 + (b + 1) % count for b in range(count)]
    return [row + 1 for row in rows]


def _req_pool_indices(case: Case) -> list[int]:
    return _pool_rows(case) + [DUMP_ROW] * case.layout.num_padding_requests


def _slots(case: Case, request: Request) -> IntArray:
    """Return the slot of each token of a request; 0 for one that no pool of 32-bit slots has."""
    size = case.batch.block_size
    positions = np.arange(request.seq_len, dtype=np.int64)
    blocks = np.array(request.block_ids, dtype=np.int64)[positions // size]
    slots = blocks * size + positions % size
    return np.where(slots > INT32_MAX, 0, slots)


def _req_to_token(inputs: Inputs) -> Ints:
    """Rows of the pool: zeros in row 0, a slot for each token, garbage behind and in rows of nobody."""
    case = inputs.case
    layout, requests, rows = case.layout, case.batch.requests, _pool_rows(case)
    width = max((request.seq_len for request in requests), default=0) + layout.num_spare_columns
    table = _unused((max(rows, default=0) + 1 + layout.num_spare_rows, width), case)
    table[DUMP_ROW] = 0
    for row, request in zip(rows, requests, strict=True):
        if row != DUMP_ROW:
            table[row, : request.seq_len] = _slots(case, request)
    return Ints(table, "int32", (max(width, 1) + layout.table_row_gap, 1))


def _page_table(inputs: Inputs) -> Ints:
    """Rows by request: its pages, garbage behind them; padded requests read the dump page."""
    case = inputs.case
    requests, rows = case.batch.requests, _pool_rows(case)
    counts = [case.batch.num_live_blocks(request) for request in requests]
    width = max(counts, default=0) + case.layout.num_spare_columns
    table = _unused((case.num_requests_padded, width), case)
    table[len(requests) :] = DUMP_PAGE
    for b, (row, count) in enumerate(zip(rows, counts, strict=True)):
        table[b, :count] = DUMP_PAGE if row == DUMP_ROW else requests[b].block_ids[:count]
    return Ints(table, "int32", (max(width, 1) + case.layout.table_row_gap, 1))


def _unused(shape: tuple[int, int], case: Case) -> IntArray:
    """Return an array of garbage; what looks valid is a slot of somebody."""
    largest = max((max(request.block_ids, default=0) for request in case.batch.requests), default=0)
    fill = {"minus_one": -1, "zero": 0, "huge": INT32_MAX}
    if case.layout.garbage in fill:
        return np.full(shape, fill[case.layout.garbage], dtype=np.int64)
    places = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    return (7 * places + 1) % min((largest + 1) * case.batch.block_size, INT32_MAX)


def _expect_slots(answer: Any, inputs: Inputs) -> list[Any]:
    """Return slots with the dump slot for -1; anything for one that no pool of 32-bit slots has."""
    slots = [ANY if slot > INT32_MAX else max(slot, 0) for slot in answer.slot_mapping]
    return _rows(slots, inputs.case, 0)


def _expect_window(bound: str) -> Callable[[Any, Inputs], list[Any]]:
    """The indexer of an extend batch sees each request as a prefill, and its tensors have no padding."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        case = inputs.case
        every = [True] * case.num_requests_padded
        windows = causal_windows(inputs["context_lens"], inputs["query_lens"], every, case.num_tokens_padded)
        return _rows(getattr(windows, bound), case, ANY)

    return expect


def _held(dtype: str, values: Callable[[Inputs], Sequence[Any]], *carries: str) -> Input:
    return Input(lambda inputs: ints(values(inputs), dtype, inputs.case.layout.garbage), carries)


def _of_case(dtype: str, values: Callable[[Case], Sequence[Any]], *carries: str) -> Input:
    return _held(dtype, lambda inputs: values(inputs.case), *carries)


def _per_request(expect: Callable[[Any, Inputs], list[Any]]) -> NamedOutput:
    return NamedOutput("int32", lambda inputs: inputs.case.num_requests_padded + 1, expect, "request_start")


def _per_token(dtype: str, expect: Callable[[Any, Inputs], list[Any]], says: str = "") -> NamedOutput:
    return NamedOutput(dtype, lambda inputs: num_rows(inputs.case), expect, "token", says=says)


_INPUTS = {
    "forward_mode": Input(lambda inputs: forward_mode(inputs.case.batch)),
    "page_size": Input(lambda inputs: inputs.case.batch.block_size),
    "num_token_non_padded": Input(lambda inputs: inputs.case.batch.num_tokens),
    "draft_token_num": Input(lambda inputs: _draft_token_num(inputs.case)),
    "seq_lens": _of_case("int64", _seq_lens),
    "cache_seqlens_int32": _of_case("int32", _cache_seqlens),
    "extend_prefix_lens": _of_case("int32", _extend_prefix_lens),
    "extend_seq_lens": _held("int32", lambda inputs: inputs["query_lens"]),
    "extend_start_loc": _held("int32", lambda inputs: _starts(inputs)[:-1]),
    "qo_indptr": _held("int32", _starts),
    "cu_seqlens_q": _held("int32", _starts),
    "cu_seqlens_k": _of_case("int32", lambda case: [0, *accumulate(_cache_seqlens(case))]),
    "kv_indptr": _of_case("int32", _kv_indptr),
    "token_to_batch_idx": _held("int32", _token_to_batch_idx),
    "positions": _held("int64", lambda inputs: _rows(inputs["position_ids"], inputs.case, 0)),
    "req_pool_indices": _of_case("int64", _req_pool_indices, "row_index"),
    "req_to_token": Input(_req_to_token),
    "page_table": Input(_page_table),
}
_OUTPUTS = {
    ("sequence_layout", "extend_start_loc"): NamedOutput(
        "int32",
        lambda inputs: inputs.case.num_requests_padded,
        lambda answer, inputs: _free_behind(answer.cu_seqlens_q[:-1], len(inputs.case.batch.requests)),
        "request",
    ),
    ("sequence_layout", "qo_indptr"): _per_request(_expect_qo_indptr),
    ("sequence_layout", "cu_seqlens_q"): _per_request(
        lambda answer, inputs: _free_behind(answer.cu_seqlens_q, len(inputs.case.batch.requests) + 1)
    ),
    ("sequence_layout", "cu_seqlens_k"): _per_request(
        lambda _, inputs: [0, *accumulate(_cache_seqlens(inputs.case))]
    ),
    ("sequence_layout", "kv_indptr"): _per_request(lambda _, inputs: _kv_indptr(inputs.case)),
    ("sequence_layout", "token_to_batch_idx"): _per_token(
        "int32",
        lambda answer, inputs: _rows(answer.token_to_request, inputs.case, ANY),
    ),
    ("position_ids", "positions"): _per_token(
        "int64", lambda answer, inputs: _rows(answer.position_ids, inputs.case, 0), "position_ids"
    ),
    ("slot_mapping", "out_cache_loc"): _per_token("int64", _expect_slots),
    ("causal_windows", "ks"): _per_token("int32", _expect_window("ks")),
    ("causal_windows", "ke"): _per_token("int32", _expect_window("ke")),
}
SGLANG = Dialect(
    "sglang",
    _INPUTS,
    _OUTPUTS,
    own_outputs=False,
    quiet_garbage="zero",
    reserved_blocks=DUMP_PAGE + 1,
    capture=capture,
    row_name="req_pool_indices",
)
