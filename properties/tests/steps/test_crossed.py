"""Any two circumstances meet in some step, and each is what its name says."""

from itertools import combinations, product

import pytest

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.steps import crossed
from cumae.properties.steps.crossed import CHANGES, CROSSED, LEVELS, PADDINGS, PAGE_SIZES, RANKS, Of, level
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.sized import TooLargeError

SLOTS = Ladder(Domain(rowless_requests=False), OPERATIONS["slot_mapping"].features)
TURNS = range(LEVELS**2)


def _made(turn: int, ladder: Ladder = SLOTS) -> Case:
    build, sizes = CROSSED[f"crossed {turn}"]
    case = build(ladder, sizes[-1])
    assert case is not None
    return case


def test_each_stands_among_the_kinds() -> None:
    assert CROSSED.items() <= KINDS.items()


def test_two_aspects_have_each_pair_of_values_once() -> None:
    every = {*product(range(LEVELS), repeat=2)}
    for one, other in combinations(Of, 2):
        assert {(level(turn, one), level(turn, other)) for turn in TURNS} == every


def test_each_aspect_has_as_many_values_as_the_array() -> None:
    aspects = (
        crossed.KINDS,
        crossed.CACHED,
        PADDINGS,
        PAGE_SIZES,
        RANKS,
        CHANGES,
        crossed.OPTIONS,
        crossed.IDLE,
        crossed.COUNTS,
        crossed.HEADS,
    )
    assert {len(aspect) for aspect in aspects} == {LEVELS} and len(aspects) == len(Of)


def test_pages_ranks_and_padding_are_those_of_the_row() -> None:
    for turn in TURNS:
        case, option = _made(turn), crossed.OPTIONS[level(turn, Of.OPTION)]
        ranks = RANKS[level(turn, Of.RANKS)]
        assert case.batch.world == (1 if ranks is None else ranks[0])
        if "kernel_block_size" not in option:
            assert case.batch.block_size == PAGE_SIZES[level(turn, Of.PAGE)]
        padding = case.layout.num_padding_tokens, case.layout.num_padding_requests
        if PADDINGS[level(turn, Of.PADDING)] == "requests":
            assert padding == (0, crossed.BESIDE)


def test_changes_are_those_of_the_row() -> None:
    for turn in TURNS:
        case, change = _made(turn), CHANGES[level(turn, Of.CHANGE)]
        ids = [i for request in case.batch.requests for i in request.block_ids if i >= 0]
        assert ("ids" in change) == (min(ids) >= 70_000)
        assert (change == "pool") == (min(case.layout.row_index or (0,)) >= 1_000)


def test_a_step_of_too_many_cached_tokens_is_not_built() -> None:
    deep = [turn for turn in TURNS if crossed.CACHED[level(turn, Of.CACHED)] == crossed.CACHED[1]]
    crowded = next(turn for turn in deep if max(crossed.COUNTS[level(turn, Of.COUNT)]) > 200)
    with pytest.raises(TooLargeError):
        CROSSED[f"crossed {crowded}"][0](SLOTS, 261)
