"""Facts about steps put together from aspects: what comes together in them, and that they lie in a domain."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from cumae.oracle import Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.search.tour_of_steps import MOST_COMPOSED, NUM_COMPOSED
from cumae.properties.steps.composed import BUDGETS, MOST_CACHED, MOST_NEW, composed
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.models import MORE_MODELS, served
from cumae.properties.tests.steps.test_kinds import DOMAINS


def _cases(domain: Domain, most: int = MOST_COMPOSED[0], turns: int = NUM_COMPOSED) -> Iterator[Case]:
    models = list(served(Ladder(domain, NAMES), MORE_MODELS))
    for turn in range(turns):
        _, model = models[turn % len(models)]
        case = composed(replace(model, turn=turn), most)
        if case is not None:
            yield case


STEPS = list(_cases(Domain()))


def _busy(case: Case) -> list[Request]:
    return [request for request in case.batch.requests if request.query_len]


@pytest.mark.parametrize("name", DOMAINS)
def test_every_case_lies_in_the_domain(name: str) -> None:
    domain = DOMAINS[name]
    why = [domain.why_not(case) for case in _cases(domain, 16, 90)]
    assert why.count(None) > 30
    if domain.max_block_id > 1_000:  # else shared pages get ids beyond it, and such a case is not visited
        assert {*why} == {None}


@pytest.mark.parametrize("most", [16, 4])
def test_no_case_has_more_requests_than_asked_for(most: int) -> None:
    for case in _cases(Domain(), most, 60):
        num_busy = sum(request.query_len > 0 for request in case.batch.requests)
        assert num_busy <= most
        assert len(case.batch.requests) - num_busy <= 1 + most // 5  # idle ones stand among them


def test_a_step_is_not_too_large() -> None:
    for case in STEPS:
        assert sum(sorted(r.context_len for r in case.batch.requests)[:-1]) <= MOST_CACHED
        assert case.batch.num_tokens <= MOST_NEW + max(BUDGETS)


@pytest.mark.parametrize(
    ("what", "least"),
    [
        ("few ordinary decodes", 5),
        ("decodes and one chunk", 5),
        ("one chunk behind more than its length", 3),
        ("prefills first", 2),
        ("a whole number of tiles of decodes", 5),
        ("all but one with drafts", 2),
        ("more than eight long contexts", 5),
        ("more than eight prompts", 5),
        ("a rank in the middle", 5),
        ("pages that fall", 3),
        ("a captured size", 5),
    ],
)
def test_what_engines_run_comes_several_times(what: str, least: int) -> None:
    assert sum(_is(what, case) for case in STEPS) >= least


def _is(what: str, case: Case) -> bool:
    requests = _busy(case)
    new, cached = [r.query_len for r in requests], [r.context_len for r in requests]
    phases = [r.phase for r in requests]
    if not new:
        return False
    if what == "few ordinary decodes":
        return 2 < len(new) <= 8 and max(new) == 1 and min(cached) >= 32
    if what == "decodes and one chunk":
        return len(new) > 8 and sorted(new)[-2] == 1 and max(new) >= 64
    if what == "one chunk behind more than its length":
        return len(new) == 1 and new[0] >= 128 and cached[0] > new[0]
    if what == "prefills first":
        number = phases.count("prefill")
        return number > 2 and len(new) - number > 2 and {*phases[:number]} == {"prefill"}
    if what == "a whole number of tiles of decodes":
        return max(new) == 1 and len(new) % 16 == 0 and not case.layout.num_padding_tokens
    if what == "all but one with drafts":
        return len(new) > 8 and min(new) == 1 and new.count(1) == 1 and len({*new}) == 2
    if what == "more than eight long contexts":
        return len(new) > 8 and min(cached) >= 4_000
    if what == "more than eight prompts":
        return len(new) > 8 and max(cached) == 0 and min(new) >= 64
    if what == "a rank in the middle":
        return len(new) > 8 and 0 < case.options.parallel.rank < case.batch.world - 1
    if what == "pages that fall":
        ids = [i for request in requests for i in request.block_ids]
        return len(ids) > 8 and all(a > b for a, b in pairwise(ids))
    assert what == "a captured size"
    return len(new) > 8 and case.num_tokens_padded == case.num_requests_padded > len(new)
