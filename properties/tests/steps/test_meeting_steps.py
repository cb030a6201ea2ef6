"""Facts about steps in which kinds of requests meet."""

import pytest

from cumae.oracle import Inputs
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.meeting_steps import MEETING
from cumae.properties.tests.given.kinds import smallest


def test_each_stands_among_the_kinds() -> None:
    assert MEETING.items() <= KINDS.items()


def test_prompts_before_drafts_have_none() -> None:
    case = smallest("prompts before drafts")
    assert case.options.drafts.max_drafts == 3
    drafts = [num_drafts_of(request, 3) for request in case.batch.requests]
    assert drafts == [0] * 3 + [3] * (len(drafts) - 3)


@pytest.mark.parametrize("name", ["idle ones in wide rows", "a deep chunk in wide rows"])
def test_wide_rows_are_those_of_released_models(name: str) -> None:
    rows = smallest(name).options.rows
    assert (rows.row_format, rows.kv_lora_rank + rows.qk_rope_head_dim) == ("bf16", 576)


def test_hybrid_pages_are_cut_into_kernel_blocks_of_16() -> None:
    case = smallest("parts of hybrid pages")
    assert (case.batch.block_size, Inputs(case)["kernel_block_size"]) == (656, 16)


def test_those_from_elsewhere_have_a_token_left() -> None:
    requests = smallest("arrived from elsewhere").batch.requests
    assert [r.query_len for r in requests] == [2] * 13 + [1] * 3
    assert [num_drafts_of(r, 1) for r in requests] == [1] * 13 + [0] * 3
    windows = smallest("arrivals in windows")
    assert windows.options.keys.window == 128
    assert {(r.phase, r.query_len) for r in windows.batch.requests} == {("prefill", 1)}


@pytest.mark.parametrize(
    ("name", "first"), [("dropped drafts, then others", 0), ("drafts, then dropped ones", 3)]
)
def test_half_of_the_requests_have_no_drafts(name: str, first: int) -> None:
    drafts = [num_drafts_of(request, 3) for request in smallest(name).batch.requests]
    half = len(drafts) // 2
    assert drafts == [first] * half + [3 - first] * half


def test_a_chunk_behind_drafts_has_none() -> None:
    case = smallest("drafts and a chunk, padded in tokens")
    assert [num_drafts_of(request, 3) for request in case.batch.requests][-2:] == [3, 0]


def test_a_chunk_alone_lies_in_a_row_but_for_two_pages() -> None:
    (request,) = smallest("a later chunk alone").batch.requests
    ids = list(request.block_ids)
    in_order = sorted(ids)
    assert in_order == list(range(in_order[0], in_order[0] + len(ids)))
    assert sum(one != other for one, other in zip(ids, in_order, strict=True)) == 2
    assert ids[-1] == in_order[-1]


def test_prompts_that_end_alike_are_uniform_by_their_mean() -> None:
    new = [request.query_len for request in smallest("equal ends with drafts").batch.requests]
    assert new[0] == new[-1] and sum(new) == new[0] * len(new) and len({*new}) > 1
