"""The dialect of FlashInfer, worked by hand."""

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Layout, Request
from cumae.properties import dialects
from cumae.properties.dialects import FLASHINFER, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.outputs import outputs_of, shape_of

PAGE = Path(dialects.__file__).parent / "flashinfer/README.md"
# A chunk behind a prefix, an empty request, an idle one, one that fills its pages; pages of 4 tokens.
STEP = Case(
    Batch((Request(3, 2, (7, 2)), Request(0, 0), Request(6, 0, (3, 1)), Request(7, 1, (5, 9), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1, num_spare_columns=2, num_padding_slots=1),
)
HELD: dict[str, Any] = {
    "qo_indptr": ("int32", [0, 2, 2, 2, 3, 3]),
    "append_indptr": ("int32", [0, 2, 2, 2, 3, 3]),
    "seq_lens": ("int32", [5, 0, 6, 8, 0]),
    "paged_kv_indptr": ("int32", [0, 2, 2, 4, 6, 6]),
    "paged_kv_indices": ("int32", [7, 2, 3, 1, 5, 9, -1, -1]),
    "paged_kv_last_page_len": ("int32", [1, 0, 2, 4, 0]),
    "kv_indptr": ("int32", [0, 2, 2, 4, 6, 6]),
    "kv_indices": ("int32", [7, 2, 3, 1, 5, 9, -1, -1]),
    "kv_last_page_len": ("int32", [1, 0, 2, 4, 0]),
    "block_tables": (
        "int32",
        [[7, 2, -1, -1], [-1, -1, -1, -1], [3, 1, -1, -1], [5, 9, -1, -1], [-1, -1, -1, -1]],
    ),
    "batch_indices": ("int32", [0, 0, 3, -1, -1]),
    "positions": ("int32", [3, 4, 7, 0, 0]),
    "page_size": 4,
    "nnz": 5,
    "kv_layout": "NHD",
}
EXPECTED: list[tuple[str, str, str, list[Any]]] = [
    ("sequence_layout", "batch_indices", "int32", [0, 0, 3, -1, -1]),
    ("position_ids", "positions", "int32", [3, 4, 7, UNTOUCHED, UNTOUCHED]),
    ("slot_mapping", "slot_mapping", "int64", [31, 8, 39, -1, -1, -1]),
    ("page_table", "block_tables", "int32", [7, 2, 0, 0, 3, 1, 5, 9, 0, 0]),
    ("kv_indices", "kv_indptr", "int32", [0, 2, 2, 4, 6, 6]),
    ("kv_indices", "kv_indices", "int32", [7, 2, 3, 1, 5, 9, *[UNTOUCHED] * 4]),
    ("kv_indices", "kv_last_page_len", "int32", [1, 0, 2, 4, 0]),
]


def test_every_input_is_what_was_worked_out_by_hand() -> None:
    assert {*HELD, "append_key", "append_value"} == set(FLASHINFER.inputs)
    for name, wanted in HELD.items():
        found = FLASHINFER.inputs[name].hold(Inputs(STEP))
        if isinstance(found, Ints):
            assert (name, found.dtype, found.values.tolist()) == (name, *wanted)
        else:
            assert (name, found) == (name, wanted)


@pytest.mark.parametrize(("operation", "name", "dtype", "wanted"), EXPECTED)
def test_every_output_is_what_was_worked_out_by_hand(
    operation: str, name: str, dtype: str, wanted: list[Any]
) -> None:
    inputs = Inputs(STEP)
    output = outputs_of(OPERATIONS[operation], FLASHINFER)[name]
    answer = inputs.call(OPERATIONS[operation].oracle)
    assert output.values(answer, inputs) == wanted
    assert (output.dtype, prod(shape_of(output, STEP))) == (dtype, len(wanted))


def test_pages_and_last_page_give_the_lengths_of_get_seq_lens() -> None:
    pages, last = np.array(HELD["kv_indptr"][1]), np.array(HELD["kv_last_page_len"][1])
    assert (np.clip(np.diff(pages) - 1, 0, None) * 4 + last).tolist() == HELD["seq_lens"][1]


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    known: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["verdict"].ok
    assert known["case"].batch.requests == (Request(3, 2, (7, 2)),)


def test_the_page_names_every_input_and_output() -> None:
    text = PAGE.read_text()
    outputs = (output.name for known in FLASHINFER.outputs.values() for output in known)
    for name in {*FLASHINFER.inputs, *outputs}:
        assert f"`{name}`" in text, name
