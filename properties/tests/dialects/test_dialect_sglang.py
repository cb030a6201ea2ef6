"""Inputs as SGLang holds them, worked by hand."""

import re
from pathlib import Path
from typing import Any

import pytest

from cumae.oracle import ANY, Batch, Case, Inputs, Request
from cumae.properties import dialects
from cumae.properties.dialects import SGLANG, Ints
from cumae.properties.dialects.sglang.cache_groups import GROUP_INPUTS
from cumae.properties.dialects.sglang.heads import HEAD_INPUTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.given.sglang_steps import DECODE, GAPS, MIXED, VERIFY

PAGE = Path(dialects.__file__).parent / "sglang/README.md"
HELD: list[tuple[Case, dict[str, Any]]] = [
    (
        MIXED,
        {
            "forward_mode": "extend",
            "page_size": 4,
            "num_token_non_padded": 3,
            "draft_token_num": 0,
            "seq_lens": ("int64", [5, 0, 5, 1]),
            "cache_seqlens_int32": ("int32", [5, 0, 5, 1]),
            "extend_prefix_lens": ("int32", [3, 0, 4, 0]),
            "extend_seq_lens": ("int32", [2, 0, 1, 0]),
            "extend_start_loc": ("int32", [0, 2, 2, 3]),
            "qo_indptr": ("int32", [0, 2, 2, 3, 3]),
            "cu_seqlens_q": ("int32", [0, 2, 2, 3, 3]),
            "cu_seqlens_k": ("int32", [0, 5, 5, 10, 11]),
            "kv_indptr": ("int32", [0, 3, 3, 7, 7]),
            "token_to_batch_idx": ("int32", [0, 0, 2, -1, -1]),
            "positions": ("int64", [3, 4, 4, 0, 0]),
            "req_pool_indices": ("int64", [2, 3, 1, 0]),
            "req_to_token": (
                "int32",
                [
                    [0, 0, 0, 0, 0, 0, 0, 0, 0],
                    [20, 21, 22, 23, 36, -1, -1, -1, -1],
                    [28, 29, 30, 31, 8, -1, -1, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1, -1, -1],
                ],
            ),
            "sliding_window_size": 0,
            "max_seq_pages": 3,
            "page_table": ("int32", [[7, 2, -1], [-1, -1, -1], [5, 9, -1], [0, 0, 0]]),
            "page_table_1": (
                "int32",
                [
                    [28, 29, 30, 31, 8, -1],
                    [-1, -1, -1, -1, -1, -1],
                    [20, 21, 22, 23, 36, -1],
                    [0, 0, 0, 0, 0, 0],
                ],
            ),
            "topk_indices": ("int32", [[3, 0], [4, 3], [4, 3], [-1, -1], [-1, -1]]),
            "batch_size": 4,
            "chunk_size": 2,
            "num_chunks": 2,
            "dsa_index_topk": 2,
            "chunk_capacity": 16,
            "prefix_chunk_len": 4,
            "num_prefix_chunks": 1,
            "extend_prefix_lens_cpu": ("int32", [3, 0, 4, 0]),
            "extend_seq_lens_cpu": ("int32", [2, 0, 1, 0]),
            "prefix_lens": ("int64", [3, 0, 4]),
            "end_offset": ("int64", [5, 0, 5]),
            "last_loc": ("int64", [30, -1, 23]),
            "free_pages": ("int64", [2, 9]),
            "extend_num_tokens": 3,
        },
    ),
    (
        VERIFY,
        {
            "forward_mode": "verify",
            "page_size": 2,
            "num_token_non_padded": 4,
            "draft_token_num": 2,
            "seq_lens": ("int64", [3, 5, 1]),
            "cache_seqlens_int32": ("int32", [5, 7, 3]),
            "extend_prefix_lens": ("int32", [3, 5, 0]),
            "extend_seq_lens": ("int32", [2, 2, 0]),
            "extend_start_loc": ("int32", [0, 2, 4]),
            "qo_indptr": ("int32", [0, 2, 4, 4]),
            "cu_seqlens_q": ("int32", [0, 2, 4, 4]),
            "cu_seqlens_k": ("int32", [0, 5, 12, 15]),
            "kv_indptr": ("int32", [0, 3, 8, 9]),
            "token_to_batch_idx": ("int32", [0, 0, 1, 1, -1, -1]),
            "positions": ("int64", [3, 4, 5, 6, 0, 0]),
            "req_pool_indices": ("int64", [5, 1, 0]),
            "req_to_token": (
                "int32",
                [
                    [0, 0, 0, 0, 0, 0, 0],
                    [4, 5, 6, 7, 16, 17, 10],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                    [8, 9, 2, 3, 12, -1, -1],
                    [-1, -1, -1, -1, -1, -1, -1],
                ],
            ),
            "sliding_window_size": 0,
            "max_seq_pages": 4,
            "page_table": ("int32", [[4, 1, 6, -1], [2, 3, 8, 5], [0, 0, 0, 0]]),
            "page_table_1": (
                "int32",
                [
                    [8, 9, 2, 3, 12, -1, -1],
                    [8, 9, 2, 3, 12, -1, -1],
                    [4, 5, 6, 7, 16, 17, 10],
                    [4, 5, 6, 7, 16, 17, 10],
                    [0, 0, 0, 0, 0, 0, 0],
                    [0, 0, 0, 0, 0, 0, 0],
                ],
            ),
            "topk_indices": ("int32", [[3, 0], [4, 3], [5, 4], [5, 6], [-1, -1], [-1, -1]]),
            "batch_size": 3,
            "chunk_size": 2,
            "num_chunks": 2,
            "dsa_index_topk": 2,
            "chunk_capacity": 6,
            "prefix_chunk_len": 2,
            "num_prefix_chunks": 3,
            "extend_prefix_lens_cpu": ("int32", [3, 5, 0]),
            "extend_seq_lens_cpu": ("int32", [2, 2, 0]),
            "prefix_lens": ("int64", [3, 5]),
            "end_offset": ("int64", [5, 7]),
            "last_loc": ("int64", [2, 16]),
            "free_pages": ("int64", [6, 5]),
            "extend_num_tokens": 4,
        },
    ),
    (
        DECODE,
        {
            "forward_mode": "decode",
            "page_size": 3,
            "num_token_non_padded": 2,
            "draft_token_num": 0,
            "seq_lens": ("int64", [4, 2, 1]),
            "cache_seqlens_int32": ("int32", [4, 2, 1]),
            "extend_prefix_lens": ("int32", [3, 1, 0]),
            "extend_seq_lens": ("int32", [1, 1, 0]),
            "extend_start_loc": ("int32", [0, 1, 2]),
            "qo_indptr": ("int32", [0, 1, 2, 2]),
            "cu_seqlens_q": ("int32", [0, 1, 2, 2]),
            "cu_seqlens_k": ("int32", [0, 4, 6, 7]),
            "kv_indptr": ("int32", [0, 4, 6, 7]),
            "token_to_batch_idx": ("int32", [0, 1, -1]),
            "positions": ("int64", [3, 1, 0]),
            "req_pool_indices": ("int64", [2, 1, 0]),
            "req_to_token": ("int32", [[0, 0, 0, 0], [12, 13, -1, -1], [6, 7, 8, 3]]),
            "sliding_window_size": 0,
            "max_seq_pages": 2,
            "page_table": ("int32", [[2, 1], [4, -1], [0, 0]]),
            "page_table_1": ("int32", [[6, 7, 8, 3], [12, 13, -1, -1], [0, 0, 0, 0]]),
            "topk_indices": ("int32", [[3, 0], [1, 0], [-1, -1]]),
            "batch_size": 3,
            "chunk_size": 2,
            "num_chunks": 2,
            "dsa_index_topk": 2,
            "chunk_capacity": 9,
            "prefix_chunk_len": 3,
            "num_prefix_chunks": 1,
            "extend_prefix_lens_cpu": ("int32", [3, 1, 0]),
            "extend_seq_lens_cpu": ("int32", [1, 1, 0]),
            "prefix_lens": ("int64", [3, 1]),
            "end_offset": ("int64", [4, 2]),
            "last_loc": ("int64", [8, 12]),
            "free_pages": ("int64", [1]),
            "extend_num_tokens": 2,
        },
    ),
]


@pytest.mark.parametrize(("case", "held"), HELD, ids=["extend", "verify", "decode"])
def test_every_input_is_what_was_worked_out_by_hand(case: Case, held: dict[str, Any]) -> None:
    assert set(held) == set(SGLANG.inputs) - set(GROUP_INPUTS) - set(
        HEAD_INPUTS
    )  # those have their own tests
    for name, wanted in held.items():
        found = SGLANG.inputs[name].hold(Inputs(case))
        if isinstance(found, Ints):
            assert (name, found.dtype, found.values.tolist()) == (name, *wanted)
        else:
            assert (name, found) == (name, wanted)


def test_a_selection_with_gaps_is_held_as_worked_out_by_hand() -> None:
    held = SGLANG.inputs["topk_indices"].hold(Inputs(GAPS))
    assert isinstance(held, Ints)
    assert held.values.tolist() == [[0, -1, -1, -1], [1, 0, -1, -1], [-1, 1, 0, 2]]


def test_a_slot_that_no_pool_of_32_bit_slots_has_is_nobodys() -> None:
    case = Case(Batch((Request(0, 2, (2**30, 3)),), 1))
    found = SGLANG.inputs["req_to_token"].hold(Inputs(case))
    assert isinstance(found, Ints) and found.values[1].tolist() == [2**30, 3]
    case = Case(Batch((Request(1, 2, (2**30, 3)),), 2))
    inputs = Inputs(case)
    answer = inputs.call(OPERATIONS["slot_mapping"].oracle)
    (output,) = SGLANG.outputs["slot_mapping"]
    assert output.values(answer, inputs) == [ANY, 6]


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    known: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["verdict"].ok
    assert known["case"].batch.requests[0].block_ids == (4, 2)


def test_the_page_names_every_input_and_output() -> None:
    text = PAGE.read_text()
    outputs = (output.name for known in SGLANG.outputs.values() for output in known)
    for name in {*SGLANG.inputs, *outputs}:
        assert f"`{name}`" in text, name
