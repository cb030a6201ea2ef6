"""Outputs as SGLang holds them, worked by hand."""

from dataclasses import replace
from math import prod
from typing import Any

import pytest

from cumae.oracle import ANY, UNTOUCHED, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.dialects import SGLANG
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.outputs import outputs_of, shape_of
from cumae.properties.tests.given.sglang_steps import DECODE, GAPS, MIXED, VERIFY

# Prefixes of 9, 0 and 3 tokens; a chunk may have 4 of each request and 7 more, which is 6 of each.
CHUNKED = Case(
    Batch((Request(9, 1, (5, 2, 6)), Request(0, 2, (7,)), Request(3, 1, (4,), "decode")), 4),
    options=Options.of(workspace_slack=7),
)
_U = UNTOUCHED
EXPECTED: list[tuple[Case, str, dict[str, list[Any]]]] = [
    (
        MIXED,
        "sequence_layout",
        {
            "extend_start_loc": [0, 2, 2, ANY],
            "qo_indptr": [0, 2, 2, 3, 3],
            "cu_seqlens_q": [0, 2, 2, 3, ANY],
            "cu_seqlens_k": [0, 5, 5, 10, 11],
            "kv_indptr": [0, 3, 3, 7, 7],
            "token_to_batch_idx": [0, 0, 2, ANY, ANY],
        },
    ),
    (MIXED, "position_ids", {"positions": [3, 4, 4, 0, 0]}),
    (MIXED, "slot_mapping", {"out_cache_loc": [31, 8, 36, 0, 0]}),
    (MIXED, "causal_windows", {"ks": [0, 0, 5, ANY, ANY], "ke": [4, 5, 10, ANY, ANY]}),
    (
        VERIFY,
        "sequence_layout",
        {
            "extend_start_loc": [0, 2, ANY],
            "qo_indptr": [0, 2, 4, ANY],
            "cu_seqlens_q": [0, 2, 4, ANY],
            "cu_seqlens_k": [0, 5, 12, 15],
            "kv_indptr": [0, 3, 8, 9],
            "token_to_batch_idx": [0, 0, 1, 1, ANY, ANY],
        },
    ),
    (VERIFY, "position_ids", {"positions": [3, 4, 5, 6, 0, 0]}),
    (VERIFY, "slot_mapping", {"out_cache_loc": [3, 12, 17, 10, 0, 0]}),
    (DECODE, "sequence_layout", {"kv_indptr": [0, 4, 6, 7], "cu_seqlens_k": [0, 4, 6, 7]}),
    (DECODE, "position_ids", {"positions": [3, 1, 0]}),
    (DECODE, "slot_mapping", {"out_cache_loc": [3, 13, 0]}),
    (MIXED, "topk_to_slots", {"result": [31, 28, 8, 31, 36, 23, -1, -1, -1, -1]}),
    (
        replace(VERIFY, layout=Layout(num_padding_requests=1)),
        "topk_to_slots",
        {"result": [3, 8, 12, 3, 17, 16, 17, 10, -1, -1, -1, -1]},
    ),
    (GAPS, "topk_to_slots", {"result": [28, -1, -1, -1, 29, 28, -1, -1, -1, 29, 28, 30]}),
    (DECODE, "topk_to_slots", {"result": [3, 6, 13, 12, -1, -1]}),
    (
        CHUNKED,
        "chunked_context",
        {
            "prefix_chunk_starts": [0, 0, 0, 6, 6, 6],
            "prefix_chunk_seq_lens": [6, 0, 3, 3, 0, 0],
            "prefix_chunk_cu_seq_lens": [0, 6, 6, 9, 0, 3, 3, 3],
            "prefix_chunk_num_tokens": [9, 3],
            "prefix_chunk_max_seq_lens": [6, 3],
        },
    ),
    (Case(Batch((Request(0, 2, (7,)),), 4)), "chunked_context", {"prefix_chunk_seq_lens": []}),
    # kernels/ops/attention/linear/kda_blackwell/__init__.py, prepare_metadata, 0.5.23.
    (
        MIXED,
        "sequence_chunks",
        {"chunk_indices": [0, 0, 2, 0], "chunk_offsets": [0, 1, 1, 2, 2]},
    ),
    # kernels/ops/attention/pad.py, seqlens_expand_triton, and dsa/metadata.py beside it, 0.5.23.
    (
        MIXED,
        "flat_decodes",
        {
            "seqlens_expanded": [4, 5, 5, ANY, ANY],
            "dsa_cache_seqlens": [2, 2, 2, ANY, ANY],
            "dsa_cu_seqlens_k": [0, 2, 4, 6, ANY, ANY],
        },
    ),
    (
        replace(VERIFY, options=Options.of(topk=5)),
        "flat_decodes",
        {
            "seqlens_expanded": [4, 5, 6, 7, ANY, ANY],
            "dsa_cache_seqlens": [4, 5, 5, 5, ANY, ANY],
            "dsa_cu_seqlens_k": [0, 4, 9, 14, 19, ANY, ANY],
        },
    ),
    # SGLang 0.5.23, kernels/ops/attention/metadata.py: ceil(seq_len / page_size) columns; padded requests
    # have one token, and their drafts in a verify step, in page 0.
    (MIXED, "page_table", {"page_table": [7, 2, _U, _U, _U, _U, 5, 9, _U, 0, _U, _U]}),
    (VERIFY, "page_table", {"page_table": [4, 1, 6, _U, 2, 3, 8, 5, 0, 0, _U, _U]}),
    (DECODE, "page_table", {"page_table": [2, 1, 4, _U, 0, _U]}),
    # SGLang 0.5.23, kernels/ops/attention/kv_indices.py: slots, as pages of one token.
    (
        MIXED,
        "kv_indices",
        {
            "kv_indptr": [0, 3, 3, 7, 7],
            "kv_indices": [28, 29, 30, 20, 21, 22, 23, _U],
            "kv_last_page_len": [1, 1, 1, 1],
        },
    ),
    (VERIFY, "kv_indices", {"kv_indices": [8, 9, 2, 4, 5, 6, 7, 16, 0]}),
    (DECODE, "kv_indices", {"kv_indptr": [0, 4, 6, 7], "kv_indices": [6, 7, 8, 3, 12, 13, 0]}),
    (
        replace(DECODE, options=Options.of(window=3)),
        "kv_indices",
        {"kv_indptr": [0, 3, 5, 6], "kv_indices": [7, 8, 3, 12, 13, 0, _U]},
    ),
]


@pytest.mark.parametrize(("case", "operation", "wanted"), EXPECTED)
def test_every_output_is_what_was_worked_out_by_hand(
    case: Case, operation: str, wanted: dict[str, list[Any]]
) -> None:
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS[operation].oracle)
    theirs = outputs_of(OPERATIONS[operation], SGLANG)
    for name, values in wanted.items():
        assert (name, theirs[name].values(answer, inputs)) == (name, values)
        assert prod(shape_of(theirs[name], case)) == len(values)
