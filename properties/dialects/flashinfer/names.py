"""The dialect of FlashInfer: offsets of appended tokens, and the pages of each request in sequence.

``README.md`` beside this file lists the names and where FlashInfer says so.
"""

from dataclasses import replace
from itertools import accumulate
from typing import Any

from cumae.oracle import GARBAGE, UNTOUCHED, Case, Inputs
from cumae.properties.dialects.dialect import Dialect, Input, held_ints
from cumae.properties.dialects.flashinfer.capture import capture
from cumae.properties.dialects.heads import new_keys, new_values, pages_before, pieces_of, two_caches
from cumae.properties.dialects.held import Ints, Rows, in_table, ints
from cumae.properties.dialects.output import Output


def _num_pages(case: Case) -> list[int]:
    counts = [case.batch.num_live_blocks(request) for request in case.batch.requests]
    return counts + [0] * case.layout.num_padding_requests


def _paged_kv_indptr(inputs: Inputs) -> list[int]:
    return [0, *accumulate(_num_pages(inputs.case))]


def _paged_kv_indices(inputs: Inputs) -> list[Any]:
    """Return the pages of each request in turn, then leftovers of an earlier, larger step."""
    case = inputs.case
    pages: list[Any] = []
    for request in case.batch.requests:
        pages.extend(request.block_ids[: case.batch.num_live_blocks(request)])
    return pages + [GARBAGE] * case.layout.num_spare_columns


def _last_page_lens(inputs: Inputs) -> list[int]:
    """Return the tokens in the last page of each request, 1 to the page size; 0 without a page."""
    size = inputs.case.batch.block_size
    return [(length - 1) % size + 1 if length else 0 for length in inputs["seq_lens"]]


def _table_width(inputs: Inputs) -> int:
    return max(_num_pages(inputs.case), default=0) + inputs.case.layout.num_spare_columns


def _block_tables(inputs: Inputs) -> Ints:
    """Return a row of pages for each request, padded ones included, then anything."""
    case, width = inputs.case, _table_width(inputs)
    rows = [list[Any](r.block_ids[: case.batch.num_live_blocks(r)]) for r in case.batch.requests]
    rows += [[] for _ in range(case.layout.num_padding_requests)]
    padded = [row + [GARBAGE] * (width - len(row)) for row in rows]
    return in_table(ints(padded, "int32", case.layout.garbage, width=width), case.layout)


def _expect_positions(answer: Any, inputs: Inputs) -> list[Any]:
    num_tokens = inputs.case.batch.num_tokens
    return [*answer.position_ids[:num_tokens], *[UNTOUCHED] * inputs.case.layout.num_padding_tokens]


def _named(name: str) -> Input:
    return held_ints("int32", lambda inputs: list(inputs[name]))


def _rows_of_step(held: Rows, case: Case) -> Rows:
    return replace(held, shape=(case.num_tokens_padded, *held.shape[1:]))


_HEADS = ("head_format", "num_heads", "head_dims")
_KEY_CACHE, _VALUE_CACHE = two_caches("append_key", "append_value")
_INPUTS = {
    "qo_indptr": _named("cu_seqlens_q"),
    "append_indptr": _named("cu_seqlens_q"),
    "seq_lens": _named("seq_lens"),
    "paged_kv_indptr": held_ints("int32", _paged_kv_indptr),
    "paged_kv_indices": held_ints("int32", _paged_kv_indices),
    "paged_kv_last_page_len": held_ints("int32", _last_page_lens),
    "kv_indptr": held_ints("int32", _paged_kv_indptr),
    "kv_indices": held_ints("int32", _paged_kv_indices),
    "kv_last_page_len": held_ints("int32", _last_page_lens),
    "batch_indices": _named("token_to_request"),
    "positions": _named("position_ids"),
    "block_tables": Input(_block_tables),
    "page_size": Input(lambda inputs: inputs.case.batch.block_size),
    "nnz": Input(lambda inputs: inputs.case.num_tokens_padded),
    "append_key": Input(lambda inputs: _rows_of_step(new_keys(inputs), inputs.case), _HEADS),
    "append_value": Input(lambda inputs: _rows_of_step(new_values(inputs), inputs.case), _HEADS),
    "kv_layout": Input(lambda inputs: inputs["page_order"], ("page_order",)),
}
_OUTPUTS = {
    "sequence_layout": (Output("batch_indices", follows="token_to_request"),),
    "position_ids": (Output("positions", "int32", follows="position_ids", expect=_expect_positions),),
    "slot_mapping": (Output("slot_mapping"),),
    "page_table": (
        Output(
            "block_tables",
            follows="page_table",
            shape=lambda case: (case.num_requests_padded, case.num_page_columns),
            is_captured=False,
        ),
    ),
    "page_write": (
        Output(
            "paged_kv_cache",
            follows="pages",
            pieces=pieces_of("append_key", "append_value"),
            before=pages_before,
            is_captured=False,
        ),
        replace(_KEY_CACHE, name="paged_k_cache"),
        replace(_VALUE_CACHE, name="paged_v_cache"),
    ),
    "kv_indices": (
        Output("kv_indptr", is_captured=False),
        Output("kv_indices", is_captured=False),
        Output("kv_last_page_len", is_captured=False),
    ),
}
FLASHINFER = Dialect(
    "flashinfer",
    _INPUTS,
    _OUTPUTS,
    own_outputs=False,
    capture=capture,
    values={"page_order": ("NHD", "HND"), "head_format": ("bf16", "fp16", "fp32", "bytes")},
)
