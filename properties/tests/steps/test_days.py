"""Facts about the trace of decodes that a prompt, drafts, graphs and pauses change."""

from itertools import pairwise

import pytest

from cumae.oracle import Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.alike import limited_of, telling_of
from cumae.properties.steps.days import DECODING, DRAFTED, LEAVING, PAUSED, TAKEN, a_day
from cumae.properties.steps.ladder import Ladder

LADDER = Ladder(Domain(), NAMES)


def _day(ladder: Ladder = LADDER) -> Trace:
    trace = a_day(telling_of(ladder))
    assert trace is not None
    return trace


def _contexts(trace: Trace) -> list[list[int]]:
    return [[r.context_len for r in step.batch.requests] for step in trace.steps]


def test_all_but_those_that_verified_go_on_behind_their_tokens() -> None:
    for before, after in pairwise(_day().steps[:-1]):
        for b, (one, other) in enumerate(zip(before.batch.requests, after.batch.requests, strict=False)):
            taken = TAKEN[b % len(TAKEN)] if one.query_len == DRAFTED else one.query_len
            assert other.context_len == one.context_len + taken


def test_a_prompt_arrives_and_decodes() -> None:
    arrived = [step.batch.requests[DECODING:] for step in _day().steps]
    assert [one[0].phase if one else "" for one in arrived[:5]] == ["", "", "prefill", "prefill", "decode"]
    assert arrived[2][0].context_len == 0 < arrived[3][0].context_len


def test_all_begin_a_page_at_once() -> None:
    step = _day().steps[5]
    assert not any(r.context_len % step.batch.tokens_per_block for r in step.batch.requests)


def test_each_keeps_its_pages_and_its_row() -> None:
    steps = _day().steps
    for step in steps[:-1]:
        for one, first in zip(step.batch.requests, steps[4].batch.requests, strict=False):
            assert one.block_ids == first.block_ids
    rows, last = steps[4].layout.row_index, steps[-1].layout.row_index
    assert rows is None or last == (*rows[:LEAVING], *rows[LEAVING + 1 :])


def test_one_is_paused_and_one_ends() -> None:
    *_, paused, resumed, ended = _day().steps
    assert [b for b, r in enumerate(paused.batch.requests) if not r.query_len] == [PAUSED]
    assert [r.query_len for r in resumed.batch.requests] == [1] * (DECODING + 1)
    assert len(ended.batch.requests) == DECODING


def test_graphs_hold_whole_requests() -> None:
    steps = _day().steps
    padded = [step.num_requests_padded for step in steps if step.layout.num_padding_requests]
    assert len({*padded}) > 1
    for step in steps:
        if step.layout.num_padding_requests:
            most = max(r.query_len for r in step.batch.requests)
            assert step.num_tokens_padded == most * step.num_requests_padded


@pytest.mark.parametrize("number", range(3))
def test_there_is_one_for_each_limit(number: int) -> None:
    limited = limited_of(Ladder(Domain(), {"window", "ring_capacity", "compress_ratio"}))
    assert a_day(limited[number]) is not None


def test_without_padding_no_step_is_padded() -> None:
    trace = _day(Ladder(Domain(padding="none"), NAMES))
    assert {step.num_tokens_padded - step.batch.num_tokens for step in trace.steps} == {0}


def test_a_domain_of_few_requests_has_none() -> None:
    assert a_day(telling_of(Ladder(Domain(max_requests=DECODING), NAMES))) is None
