"""The dialect of FlashInfer, by hand, there and back, and on implementations right and wrong."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Layout, Request
from cumae.properties import dialects
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.checks import checks_for
from cumae.properties.dialects import FLASHINFER, Ints
from cumae.properties.dialects.dump import case_from_tensors
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.outputs import outputs_of, shape_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
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
    "batch_indices": ("int32", [0, 0, 3, -1, -1]),
    "positions": ("int32", [3, 4, 7, 0, 0]),
    "page_size": 4,
    "nnz": 5,
}
EXPECTED: list[tuple[str, str, str, list[Any]]] = [
    ("sequence_layout", "batch_indices", "int32", [0, 0, 3, -1, -1]),
    ("position_ids", "positions", "int32", [3, 4, 7, UNTOUCHED, UNTOUCHED]),
    ("slot_mapping", "slot_mapping", "int64", [31, 8, 39, -1, -1, -1]),
]


def test_every_input_is_what_was_worked_out_by_hand() -> None:
    assert set(HELD) == set(FLASHINFER.inputs)
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
    assert (output.dtype, shape_of(output, STEP)) == (dtype, (len(wanted),))


def test_pages_and_last_page_give_the_lengths_of_get_seq_lens() -> None:
    pages, last = np.array(HELD["kv_indptr"][1]), np.array(HELD["kv_last_page_len"][1])
    assert (np.clip(np.diff(pages) - 1, 0, None) * 4 + last).tolist() == HELD["seq_lens"][1]


NAMES = ("qo_indptr", "paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len", "page_size", "nnz")


def tensors(case: Case, number: int) -> dict[str, Any]:
    """Return what a dump of a step holds, by turns as tensors, arrays and lists."""
    found: dict[str, Any] = {}
    for name in NAMES:
        held = FLASHINFER.inputs[name].hold(Inputs(case))
        found[name] = held
        if isinstance(held, Ints):
            of_torch = torch.from_numpy(held.values).to(getattr(torch, held.dtype))
            found[name] = (of_torch, held.values, held.values.tolist())[number % 3]
    return found


def test_two_hundred_cases_come_back_as_they_were() -> None:
    for number, case in zip(range(200), seeded_cases(12, features=()), strict=False):
        back = case_from_tensors("flashinfer", **tensors(case, number))
        padded = [Request(0, 0)] * case.layout.num_padding_requests
        requests = [*case.batch.requests, *padded]
        assert len(back.batch.requests) == len(requests)
        assert back.batch.block_size == case.batch.block_size
        assert back.num_tokens_padded == case.num_tokens_padded
        for request, found in zip(requests, back.batch.requests, strict=True):
            assert (found.context_len, found.query_len) == (request.context_len, request.query_len)
            assert found.block_ids == request.block_ids[: case.batch.num_live_blocks(request)]


@pytest.mark.parametrize(
    ("dump", "rule"),
    [
        ({"qo_indptr": [1, 2]}, r"qo_indptr\[0\] = 1, must be 0"),
        (
            {"qo_indptr": [0, 6]},
            r"qo_indptr: length of request 0 = 6, must be <= 5, the tokens its pages hold",
        ),
        ({"qo_indptr": [0, 1, 2]}, r"paged_kv_indptr: number = 2, must be 3, as qo_indptr"),
        ({"paged_kv_indptr": [0, -1]}, r"paged_kv_indptr\[1\] = -1, must be >= 0, never fall"),
        ({"paged_kv_indptr": [0, 3]}, r"paged_kv_indices: number = 2, must be >= 3"),
        ({"paged_kv_indices": [7, -1]}, r"paged_kv_indices\[1\] = -1, must be >= 0"),
        ({"paged_kv_indices": [7, 7]}, r"block_ids\[1\] = 7, must be distinct within its request"),
        ({"paged_kv_last_page_len": [0]}, r"paged_kv_last_page_len\[0\] = 0, must be >= 1"),
        ({"paged_kv_last_page_len": [5]}, r"paged_kv_last_page_len\[0\] = 5, must be <= 4"),
        ({"page_size": 0}, r"page_size = 0, must be >= 1"),
        ({"nnz": 1}, r"nnz = 1, must be >= 2"),
        ({"page_size": None}, r"page_size = None, must be given"),
    ],
)
def test_a_dump_that_cannot_be_a_step_is_refused(dump: dict[str, Any], rule: str) -> None:
    good = {"qo_indptr": [0, 2], "paged_kv_indptr": [0, 2], "paged_kv_indices": [7, 2]}
    good |= {"paged_kv_last_page_len": [1], "page_size": 4}  # type: ignore[dict-item]
    assert case_from_tensors("flashinfer", **good).batch.requests == (Request(3, 2, (7, 2)),)
    with pytest.raises(ValueError, match=rule):
        case_from_tensors("flashinfer", **(good | dump))


def requests_of(append_indptr: torch.Tensor) -> torch.Tensor:
    """Return the request of each live token."""
    lens = append_indptr.diff().long()
    return torch.repeat_interleave(torch.arange(lens.numel(), device=lens.device), lens)


def positions_of(append_indptr: torch.Tensor, seq_lens: torch.Tensor) -> torch.Tensor:
    """Return the position of each live token."""
    b = requests_of(append_indptr)
    row = torch.arange(b.numel(), device=b.device)
    return row + (seq_lens - append_indptr[1:]).long()[b]


def batch_indices_of_tokens(append_indptr: Any, batch_indices: Any) -> None:
    b = requests_of(append_indptr)
    batch_indices.fill_(-1)
    batch_indices[: b.numel()] = b.int()


def positions_into_a_buffer(append_indptr: Any, seq_lens: Any, positions: Any) -> None:
    found = positions_of(append_indptr, seq_lens)
    positions[: found.numel()] = found.int()


def positions_allocated(append_indptr: Any, seq_lens: Any, nnz: int) -> Any:
    positions = torch.zeros(nnz, dtype=torch.int32, device=seq_lens.device)
    positions_into_a_buffer(append_indptr, seq_lens, positions)
    return positions


def positions_from_pages(
    qo_indptr: Any,
    paged_kv_indptr: Any,
    paged_kv_last_page_len: Any,
    page_size: int,
    batch_indices: Any,
    positions: Any,
) -> None:
    """As get_batch_indices_positions: both outputs, one of which is an input that already says the same."""
    seq_lens = (paged_kv_indptr.diff() - 1).clamp(min=0) * page_size + paged_kv_last_page_len
    batch_indices_of_tokens(qo_indptr, batch_indices)
    positions_into_a_buffer(qo_indptr, seq_lens, positions)


def slots_of_pages(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    live = batch_indices >= 0
    b, position = batch_indices[live].long(), positions[live].long()
    page = paged_kv_indices[paged_kv_indptr[b] + position // page_size].long()
    slot_mapping.fill_(-1)
    slot_mapping[: b.numel()] = page * page_size + position % page_size


def verdict_on(function: Any, operation: str) -> Verdict:
    binding = binding_of(function, operation, "flashinfer")
    return search(
        binding, DEVICE, Budget(examples=60), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (batch_indices_of_tokens, "sequence_layout"),
        (positions_into_a_buffer, "position_ids"),
        (positions_allocated, "position_ids"),
        (positions_from_pages, "position_ids"),
        (slots_of_pages, "slot_mapping"),
    ],
)
def test_a_right_implementation_passes_every_check(function: Any, operation: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.ok, verdict.failure
    assert verdict.cases >= 60


def wide_positions_read_as_narrow(append_indptr: Any, seq_lens: Any, positions: Any) -> None:
    """flashinfer#2255: positions are int64 and read as int32."""
    narrow = positions_of(append_indptr, seq_lens).view(torch.int32)
    positions[: narrow.numel() // 2] = narrow[: narrow.numel() // 2]


def padding_not_marked(append_indptr: Any, batch_indices: Any) -> None:
    """flashinfer#2792: padded tokens keep whatever the buffer held, and are written to its request."""
    b = requests_of(append_indptr)
    batch_indices[: b.numel()] = b.int()


def tokens_bound_by_pages(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    """flashinfer#810: a number of pages and one of tokens are held against each other."""
    slots_of_pages(batch_indices, positions, paged_kv_indptr, paged_kv_indices, page_size, slot_mapping)
    live = batch_indices >= 0
    b = batch_indices[live].long()
    outside = positions[live] >= paged_kv_indptr.diff()[b]
    slot_mapping[: b.numel()][outside] = -1


def slots_in_32_bits(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    """flashinfer#3136: page × stride in 32 bits."""
    slots_of_pages(batch_indices, positions, paged_kv_indptr, paged_kv_indices, page_size, slot_mapping)
    slot_mapping.copy_(slot_mapping.int())


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (wide_positions_read_as_narrow, "position_ids", "agrees"),
        (padding_not_marked, "sequence_layout", "writes_everything"),
        (tokens_bound_by_pages, "slot_mapping", "agrees"),
        (slots_in_32_bits, "slot_mapping", "survives_large_ids"),
    ],
)
def test_a_bug_that_was_shipped_is_caught(function: Any, operation: str, check: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert len(verdict.failure.case.batch.requests) <= 2


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
