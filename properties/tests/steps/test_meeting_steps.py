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
