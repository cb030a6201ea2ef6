"""Facts about the long trace of decodes that go on."""

from itertools import pairwise

import pytest

from cumae.oracle import Case, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.steady_decodes import DECODING, GRAPHS, SELECTED, STEADY, gone_on


def _trace(domain: Domain | None = None) -> Trace:
    trace = gone_on(Ladder(domain or Domain(), NAMES))
    assert trace is not None
    return trace


def _lens(case: Case) -> list[tuple[int, int]]:
    return [(r.context_len, r.query_len) for r in case.batch.requests if r.query_len]


def test_all_grow_by_a_token_beyond_their_selections() -> None:
    steps = _trace().steps[:STEADY]
    assert len(steps[0].batch.requests) == DECODING
    for before, after in pairwise(steps):
        assert [(cached + 1, new) for cached, new in _lens(before)] == _lens(after)
        assert [r.block_ids for r in before.batch.requests] == [r.block_ids for r in after.batch.requests]
    assert all(cached >= SELECTED for cached, _ in _lens(steps[0]))


def test_graphs_differ_and_nobody_computes_anything_in_one_step() -> None:
    steps = _trace().steps[STEADY:]
    padding = [(s.layout.num_padding_tokens, s.layout.num_padding_requests) for s in steps]
    assert padding[: len(GRAPHS)] == [*GRAPHS]
    assert [s.batch.num_tokens for s in steps].count(0) == 1


def test_lengths_are_hidden_once_and_a_paused_request_comes_and_goes() -> None:
    steps = _trace().steps
    assert [step.layout.host_lens for step in steps].count(False) == 1
    assert sum(0 in [r.query_len for r in step.batch.requests] for step in steps) == 1


@pytest.mark.parametrize(
    "domain", [Domain(padding="none"), Domain(empty_requests=False), Domain(min_requests=3)]
)
def test_it_lies_in_the_domain(domain: Domain) -> None:
    assert all(domain.why_not(step) is None for step in _trace(domain).steps)
