"""Block tables and lists of pages as vLLM holds them, worked by hand."""

from math import prod
from typing import Any

import pytest

from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.dialects import VLLM, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.outputs import outputs_of, shape_of

_U = UNTOUCHED
# A decode behind two pages, one block in advance; an empty request; a first chunk; pages of 4 tokens.
STEP = Case(
    Batch((Request(6, 1, (7, 2, 8), "decode"), Request(0, 0), Request(0, 4, (5,))), 4),
    Layout(num_padding_requests=1, num_spare_columns=1),
    Options.of(window=3),
)
# vLLM 0.33.0, v1/worker/gpu/block_table.py `_gather_block_tables_kernel`: every held block is copied; the
# first token sees two tokens before its own, from position 4 on.
GATHERED = [0, 2, 8, _U, _U, _U, _U, _U, 5, _U, _U, _U, 0, 0, 0, 0]
# vLLM 0.33.0, v1/attention/backends/flashinfer.py `_compute_flashinfer_kv_metadata`, which knows no window.
LISTED = {
    "paged_kv_indptr": [0, 2, 2, 3, 3],
    "paged_kv_indices": [7, 2, 5, *[_U] * 5],
    "paged_kv_last_page_len": [3, 0, 4, 0],
}


def said(operation: str, case: Case) -> dict[str, list[Any]]:
    """Return the outputs of an operation in vLLM's names."""
    inputs, theirs = Inputs(case), outputs_of(OPERATIONS[operation], VLLM)
    answer = inputs.call(OPERATIONS[operation].oracle)
    found = {name: output.values(answer, inputs) for name, output in theirs.items()}
    assert all(prod(shape_of(theirs[name], case)) == len(values) for name, values in found.items())
    return found


def test_a_gathered_row_holds_all_blocks_behind_the_window() -> None:
    assert said("page_table", STEP) == {"input_block_table": GATHERED}


def test_a_window_of_one_token_and_ranks_mask_nothing() -> None:
    narrow = Case(STEP.batch, STEP.layout, Options.of(window=1))
    ranked = Case(Batch((Request(20, 1, (7, 2, 8), "decode"),), 4, 2), options=Options.of(window=3))
    assert said("page_table", narrow)["input_block_table"][:3] == [7, 2, 8]
    assert said("page_table", ranked)["input_block_table"] == [7, 2, 8]


def test_the_list_of_pages_is_flashinfers() -> None:
    assert said("kv_indices", Case(STEP.batch, STEP.layout)) == LISTED


@pytest.mark.parametrize(("name", "wanted"), [("num_blocks", [3, 0, 1]), ("sliding_window_reach", 2)])
def test_an_input_is_what_was_worked_out_by_hand(name: str, wanted: Any) -> None:
    found = VLLM.inputs[name].hold(Inputs(STEP))
    assert (found.values.tolist()[:3] if isinstance(found, Ints) else found) == wanted
