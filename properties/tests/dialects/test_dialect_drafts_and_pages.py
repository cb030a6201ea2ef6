"""Drafts in vLLM's names and pages in SGLang's, worked out by hand; wrong functions under them."""

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.drafts import spec_decode_metadata
from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import SGLANG, VLLM, Dialect, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.outputs import outputs_of, shape_of

# The requests of the comment in `_calc_spec_decode_metadata`, v1/worker/gpu_model_runner.py of vLLM 0.33.0.
DRAFTS = Case(
    Batch(
        (
            Request(0, 4, (1,)),
            Request(5, 100, (2,)),
            Request(1, 3, (3,), "decode"),
            Request(5, 100, (4,)),
            Request(1, 2, (5,), "decode"),
        ),
        128,
    ),
    Layout(num_padding_tokens=3, num_padding_requests=2),
    Options.of(max_drafts=3),
)
# An extend as `alloc_extend_kernel` of SGLang 0.5.23 (kernels/ops/memory/allocator.py) gets it: the rest of
# page 9, pages 2 and 5; no page; page 7.
PAGES = Case(
    Batch((Request(3, 7, (9, 2, 5)), Request(1, 1, (4,)), Request(0, 2, (7,))), 4),
    Layout(num_padding_requests=1, num_padding_tokens=2, num_spare_blocks=2),
)
# Each request decodes two tokens: in `verify`, `seq_lens` has no drafts, and `end_offset` has.
VERIFY = Case(Batch((Request(3, 2, (7, 2), "decode"), Request(4, 2, (5, 8), "decode")), 4))
EAGER = Domain(captured=False)


def shown(dialect: Dialect, case: Case, name: str) -> Any:
    held = dialect.inputs[name].hold(Inputs(case))
    return (held.dtype, held.values.tolist()) if isinstance(held, Ints) else held


def expected(dialect: Dialect, operation: str, case: Case) -> dict[str, list[Any]]:
    inputs, found = Inputs(case), {}
    for name, output in outputs_of(OPERATIONS[operation], dialect).items():
        found[name] = output.values(inputs.call(OPERATIONS[operation].oracle), inputs)
        assert prod(shape_of(output, case)) == len(found[name])
    return found


def test_drafts_are_held_as_the_comment_says() -> None:
    assert shown(VLLM, DRAFTS, "num_draft_tokens") == ("int32", [3, 0, 2, 0, 1])
    assert shown(VLLM, DRAFTS, "cu_num_scheduled_tokens") == ("int32", [4, 104, 107, 207, 209])
    assert shown(VLLM, DRAFTS, "num_speculative_tokens") == 3


def test_lists_of_drafts_have_exactly_the_entries_of_the_comment() -> None:
    assert expected(VLLM, "draft_steps", DRAFTS) == {
        "logits_indices": [0, 1, 2, 3, 103, 104, 105, 106, 206, 207, 208],
        "target_logits_indices": [0, 1, 2, 5, 6, 9],
        "bonus_logits_indices": [3, 4, 7, 8, 10],
        "cu_num_draft_tokens": [3, 3, 5, 5, 6],
        "cu_num_sampled_tokens": [4, 5, 8, 9, 11],
    }


def test_pages_are_held_for_live_requests() -> None:
    assert shown(SGLANG, PAGES, "prefix_lens") == ("int64", [3, 1, 0])
    assert shown(SGLANG, PAGES, "end_offset") == ("int64", [10, 2, 2])
    assert shown(SGLANG, PAGES, "last_loc") == ("int64", [38, 16, -1])
    assert shown(SGLANG, PAGES, "free_pages") == ("int64", [2, 5, 7, 10, 11])
    assert shown(SGLANG, PAGES, "extend_num_tokens") == 10


def test_slots_of_an_extend_follow_the_kernel() -> None:
    assert expected(SGLANG, "allocate_slots", PAGES) == {
        "out_cache_loc": [39, 8, 9, 10, 11, 20, 21, 17, 28, 29],
        "num_new_pages": [3],
        "last_locs": [38, 16, -1],
    }


def test_a_verify_step_allocates_its_drafts() -> None:
    assert shown(SGLANG, VERIFY, "seq_lens") == ("int64", [3, 4])
    assert shown(SGLANG, VERIFY, "end_offset") == ("int64", [5, 6])
    slots = expected(SGLANG, "allocate_slots", VERIFY)["out_cache_loc"]
    assert slots == [31, 8, 32, 33]


def bonus_by_row(
    num_draft_tokens: torch.Tensor, cu_num_scheduled_tokens: torch.Tensor, num_reqs: int
) -> dict[str, torch.Tensor]:
    found = spec_decode_metadata(num_draft_tokens, cu_num_scheduled_tokens, num_reqs)
    return found | {"bonus_logits_indices": cu_num_scheduled_tokens - 1}


def last_locs_of_the_pool(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor
) -> dict[str, torch.Tensor]:
    rows, last = req_pool_indices[: len(prefix_lens)], (prefix_lens - 1).clamp(min=0)
    return {"last_locs": torch.where(prefix_lens > 0, req_to_token[rows, last].long(), -1)}


def test_a_pool_of_32_bits_is_not_asked_for_larger_last_slots() -> None:
    how: dict[str, Any] = {"domain": EAGER.having(min_tokens=1), "examples": 40, "save_to": None}
    verdict = cumae.check(last_locs_of_the_pool, "allocate_slots", dialect="sglang", **how)
    assert verdict.ok, verdict.failure


def pages_without_the_last_one(prefix_lens: torch.Tensor, end_offset: torch.Tensor, page_size: int) -> Any:
    pages = (end_offset - prefix_lens + page_size - 1) // page_size
    return {"num_new_pages": pages.sum(0, keepdim=True)}


@pytest.mark.parametrize(
    ("wrong", "operation", "dialect"),
    [
        (bonus_by_row, "draft_steps", "vllm"),
        (pages_without_the_last_one, "allocate_slots", "sglang"),
    ],
)
def test_a_wrong_function_is_found(
    wrong: Callable[..., Any], operation: cumae.OperationName, dialect: cumae.DialectName
) -> None:
    verdict = cumae.check(wrong, operation, dialect=dialect, domain=EAGER, examples=40, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"


def test_a_pool_has_a_column_where_no_request_has_a_token() -> None:
    case = Case(Batch((Request(0, 0), Request(0, 0)), 4))
    _, rows = shown(SGLANG, case, "req_to_token")
    assert {len(row) for row in rows} == {1}
