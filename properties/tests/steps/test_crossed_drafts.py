"""Drafts of each number, full pages and idle requests meet each other circumstance in some step."""

from itertools import combinations, product

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.steps import crossed_drafts
from cumae.properties.steps.crossed_drafts import (
    CACHED,
    CHANGES,
    CROSSED_DRAFTS,
    DRAFTS,
    IDLE,
    LEVELS,
    PADDINGS,
    PAGE_SIZES,
    RANKS,
    Of,
    level,
)
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.sized import TooLargeError

SLOTS = Ladder(Domain(rowless_requests=False), OPERATIONS["slot_mapping"].features)
TURNS = range(LEVELS**2)


def _made(name: str, turn: int, ladder: Ladder = SLOTS) -> Case:
    build, sizes = CROSSED_DRAFTS[f"crossed {name} {turn}"]
    case = build(ladder, sizes[-1])
    assert case is not None
    return case


def test_each_stands_among_the_kinds() -> None:
    assert CROSSED_DRAFTS.items() <= KINDS.items() and len(CROSSED_DRAFTS) == 2 * LEVELS**2


def test_two_aspects_have_each_pair_of_values_once() -> None:
    every = {*product(range(LEVELS), repeat=2)}
    for one, other in combinations(Of, 2):
        assert {(level(turn, one), level(turn, other)) for turn in TURNS} == every


def test_each_aspect_has_as_many_values_as_the_array() -> None:
    kinds, options = crossed_drafts.KINDS, crossed_drafts.OPTIONS
    aspects = (*kinds, CACHED, PADDINGS, PAGE_SIZES, RANKS, CHANGES, options, IDLE)
    assert {len(aspect) for aspect in aspects} == {LEVELS} and len(aspects) == len(Of) + 1


@pytest.mark.parametrize("name", ["drafts", "others"])
def test_pages_ranks_and_padding_are_those_of_the_row(name: str) -> None:
    for turn in TURNS:
        case, ranks = _made(name, turn), RANKS[level(turn, Of.RANKS)]
        assert (case.batch.world, case.options.parallel.rank) == (ranks[:2] if ranks else (1, 0))
        if "kernel_block_size" not in crossed_drafts.OPTIONS[level(turn, Of.OPTION)]:
            assert case.batch.block_size == PAGE_SIZES[level(turn, Of.PAGE)]
        kind = PADDINGS[level(turn, Of.PADDING)]
        assert (case.layout.num_padding_requests > 0) == (kind in ("graph", "requests"))
        assert (case.layout.num_padding_slots > 0) == (kind in ("slots", "tokens"))


def test_busy_requests_have_as_many_new_tokens_and_lie_at_pages_as_the_row_says() -> None:
    for turn in TURNS:
        case, at = _made("drafts", turn), CACHED[level(turn, Of.CACHED)]
        size = case.batch.tokens_per_block
        busy = [one for one in case.batch.requests if one.query_len]
        assert {one.query_len for one in busy} == {DRAFTS[level(turn, Of.KIND)] + 1}
        assert at != "full" or {one.seq_len % size for one in case.batch.requests} == {0}
        assert at != "begun" or {one.context_len % size for one in busy} == {0}


def test_requests_verify_all_their_drafts() -> None:
    ladder = Ladder(Domain(), OPERATIONS["draft_steps"].features)
    for turn in TURNS:
        case, drafts = _made("drafts", turn, ladder), DRAFTS[level(turn, Of.KIND)]
        busy = [one for one in case.batch.requests if one.query_len]
        assert case.options.drafts.max_drafts == drafts
        some = [num_drafts_of(one, drafts) for one in busy]
        assert CACHED[level(turn, Of.CACHED)] in crossed_drafts.AT_PAGES or {*some} == {drafts}


def test_a_step_of_too_many_cached_tokens_is_not_built() -> None:
    deep = [turn for turn in TURNS if CACHED[level(turn, Of.CACHED)] == "deep"]
    crowded = next(turn for turn in deep if max(CROSSED_DRAFTS[f"crossed drafts {turn}"][1]) > 30)
    with pytest.raises(TooLargeError):
        CROSSED_DRAFTS[f"crossed drafts {crowded}"][0](SLOTS, 37)
