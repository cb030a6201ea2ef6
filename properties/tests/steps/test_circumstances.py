"""Each mixture of requests comes under each circumstance, and each circumstance is what its name says."""

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.steps.circumstances import (
    CIRCUMSTANCES,
    EQUAL,
    FAR,
    GENERAL,
    LARGEST_ID,
    POOL_ROW,
    WITH_OPTIONS,
)
from cumae.properties.steps.few_requests import FEW
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.mixtures import MIXTURES

LADDER = Ladder(Domain(), NAMES)
SLOTS = Ladder(Domain(), OPERATIONS["slot_mapping"].features)
NO_CACHE = NAMES - {"row_format", "head_format"}


def _made(name: str, ladder: Ladder = LADDER) -> Case:
    build, sizes = {**CIRCUMSTANCES, **FEW}[name]
    case = build(ladder, sizes[-1])
    assert case is not None
    return case


def _padding(case: Case) -> tuple[int, int]:
    return case.layout.num_padding_tokens, case.layout.num_padding_requests


def test_each_mixture_comes_under_each_circumstance() -> None:
    assert {f"{kinds}, {name}" for kinds in MIXTURES for name in GENERAL} <= CIRCUMSTANCES.keys()
    pairs = [name for name in CIRCUMSTANCES if name.split(", ")[-1] in GENERAL and "hundreds" not in name]
    first = pairs[: len(GENERAL)]
    assert {name.rsplit(", ", 1)[1] for name in first} == {*GENERAL}
    assert {name.rsplit(", ", 1)[0] for name in first} == {*MIXTURES}


def test_each_circumstance_with_options_is_one_of_some_operation() -> None:
    ladders = [Ladder(Domain(), one.features) for one in OPERATIONS.values()]
    for name, (_, mixtures) in WITH_OPTIONS.items():
        build, sizes = CIRCUMSTANCES[f"{mixtures[0]}, {name}"]
        assert any(build(ladder, sizes[-1]) is not None for ladder in ladders), name


@pytest.mark.parametrize("kinds", MIXTURES)
def test_a_circumstance_is_what_its_name_says(kinds: str) -> None:
    padded = _made(f"{kinds}, padded to a power of two")
    total = padded.num_tokens_padded
    assert total & (total - 1) == 0 and padded.layout.num_padding_tokens > 64
    tokens, requests = _padding(_made(f"{kinds}, beside padded requests"))
    assert tokens == 0 and requests > 32
    equal = {one.context_len for one in _made(f"{kinds}, of one context").batch.requests}
    assert equal - {0} <= set(range(EQUAL, EQUAL + 9)) and equal
    assert max(one.context_len for one in _made(f"{kinds}, with one far").batch.requests) >= FAR
    assert _made(f"{kinds}, in pages of 128", SLOTS).batch.block_size == 128
    freed = _made(f"{kinds}, without first pages").batch.requests
    assert any(one.block_ids[:1] == (-1,) for one in freed)
    large = _made(f"{kinds}, in large ids", Ladder(Domain(), NO_CACHE)).batch.requests
    assert min(i for one in large for i in one.block_ids if i >= 0) >= LARGEST_ID


def test_rows_of_a_pool_are_behind_a_thousand_others() -> None:
    domain = Domain(rowless_requests=False)
    made = [
        build(Ladder(domain, OPERATIONS["slot_mapping"].features), sizes[0])
        for name, (build, sizes) in CIRCUMSTANCES.items()
        if "in rows of a pool" in name
    ]
    rows = [case.layout.row_index for case in made if case is not None]
    assert rows and all(row is not None and min(row) >= POOL_ROW for row in rows)


def test_a_request_that_drafts_alone_has_as_many_drafts_as_it_can() -> None:
    for tokens in (2, 5, 17):
        case = _made(f"one decode of {tokens} tokens")
        (request,), options = case.batch.requests, case.options.drafts
        assert num_drafts_of(request, options.max_drafts, options.draft_seed) == tokens - 1
        assert _padding(case) == ((7 * tokens, 7) if tokens % 2 else (0, 0))


def test_few_requests_are_one_or_two_and_drafts_fill_powers_of_two() -> None:
    assert len(_made("a prompt and a far chunk").batch.requests) == 2
    assert _padding(_made("one far in a graph of eight")) == (7, 7)
    assert _made("one prompt, padded").num_tokens_padded == 256
    assert _made("128 decodes of 8 tokens, exactly").num_tokens_padded == 1_024
    assert _made("uneven drafts that fill a graph").num_tokens_padded == 256
    assert _made("paused").batch.num_tokens == 0
    assert _made("a large graph").num_requests_padded == 576
