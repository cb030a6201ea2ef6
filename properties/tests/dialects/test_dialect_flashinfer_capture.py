"""Tensors of FlashInfer give their step back, or are refused."""

from typing import Any

import pytest
import torch

from cumae.oracle import Case, Inputs, Request
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.dialects import FLASHINFER, Ints
from cumae.properties.dialects.dump import case_from_tensors

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
