"""Facts about cases of chosen sizes."""

from collections.abc import Callable

import pytest

from cumae.oracle import Case
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import large_case
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.option_sizes import drafted, selected, valued
from cumae.properties.steps.room import roomy
from cumae.properties.steps.steps_of_one_kind import among_decodes

LADDER = Ladder(Domain(), NAMES)
DOMAINS = {
    "decodes": Domain(phases=("decode",)),
    "uniform decodes": Domain(phases=("decode",), uniform_decodes=True),
    "verify steps": Domain(phases=("decode",), verify_steps=True),
    "decodes first": Domain(order="decodes_first"),
    "few requests": Domain(max_requests=3),
    "some requests": Domain(min_requests=9),
    "few tokens": Domain(max_tokens=100),
    "whole prefixes": Domain(whole_prefixes=True),
    "short": Domain(max_context_len=30, max_query_len=20),
    "no padding": Domain(padding="none"),
    "reserved blocks": Domain(reserved_blocks=1),
    "few blocks": Domain(max_block_id=600),
    "one block size": Domain(block_sizes=(64,)),
    "fp8": Domain(row_format=("fp8",)),
    "no empty requests": Domain(empty_requests=False),
    "dummy request": Domain(dummy_request=(True,)),
}


def _query_lens(case: Case) -> list[int]:
    return [request.query_len for request in case.batch.requests]


def _context_lens(case: Case) -> list[int]:
    return [request.context_len for request in case.batch.requests]


def _cases(ladder: Ladder) -> list[Case]:
    made = [
        ladder.long(700),
        ladder.wide(700),
        ladder.deep(700),
        ladder.many(700),
        ladder.crowd(700),
        ladder.padded(700, 300),
        ladder.edges((32, 512)),
        ladder.tokens(701, 2),
        ladder.requests(129, 1),
        ladder.ids(70_000),
        ladder.far(9_000),
        among_decodes(ladder, 40),
        selected(ladder, 64, 700),
        ladder.busy(67),
        ladder.lulls(33),
        roomy(ladder, 67),
        drafted(ladder, 8, 33),
        *valued(ladder, 33),
    ]
    return [case for case in made if case is not None]


def test_a_long_case_has_new_tokens_and_cached_ones_of_its_size() -> None:
    case = LADDER.long(4097)
    assert case is not None
    assert max(_query_lens(case)) == max(_context_lens(case)) == 4097


def test_a_wide_case_needs_as_many_columns_as_its_size() -> None:
    case = LADDER.wide(513)
    assert case is not None
    assert max(case.batch.num_live_blocks(request) for request in case.batch.requests) == 513


def test_long_cases_have_no_window_unless_the_domain_promises_one() -> None:
    for build in (LADDER.long, LADDER.deep):
        for size in range(500, 520):
            case = build(size)
            assert case is not None and case.options.keys.window == 0
            assert case.read_capacity > size + min(case.layout.key_slack, 0)
    windowed = Ladder(Domain(window=(7,)), NAMES).long(500)
    assert windowed is not None and windowed.options.keys.window == 7


def test_a_crowd_has_few_tokens() -> None:
    case = LADDER.crowd(4_099)
    assert case is not None
    assert len(case.batch.requests) == 4_099
    assert 500 < case.batch.num_tokens < sum(r.seq_len for r in case.batch.requests) < 2_000
    assert case.batch.requests[0].context_len and case.batch.requests[-1].query_len


@pytest.mark.parametrize("build", [LADDER.many, LADDER.crowd, lambda size: LADDER.requests(size, 0)])
def test_a_case_of_many_requests_has_exactly_as_many(build: Callable[[int], Case | None]) -> None:
    case = build(1025)
    assert case is not None
    assert len(case.batch.requests) == 1025


def test_a_case_of_tokens_has_exactly_as_many() -> None:
    for count in (1, 2, 3, 31, 1024, 1025):
        case = LADDER.tokens(count, 3)
        assert case is not None
        assert (case.batch.num_tokens, case.num_tokens_padded) == (count, count + 3)


def test_a_padded_case_pads_tokens_slots_and_requests() -> None:
    case = LADDER.padded(513, 257)
    assert case is not None
    layout = case.layout
    assert (layout.num_padding_tokens, layout.num_padding_requests, layout.num_padding_slots) == (
        513,
        257,
        513,
    )


def test_edges_lie_on_both_sides_of_each_size() -> None:
    case = LADDER.edges((32, 1024))
    assert case is not None
    assert {31, 32, 33, 1023, 1024, 1025} <= set(_query_lens(case)) & set(_context_lens(case))


def test_the_largest_id_is_the_one_asked_for() -> None:
    case = LADDER.ids(65_537)
    assert case is not None
    assert max(i for request in case.batch.requests for i in request.block_ids) == 65_537


def test_a_far_case_has_cached_tokens_of_its_size_and_new_ones_on_the_last_rank() -> None:
    ranks = LADDER.on_ranks(8)
    assert ranks is not None
    case = ranks.far(131_073)
    assert case is not None
    assert case.batch.world == 8 and case.options.parallel.rank == 7
    assert max(_context_lens(case)) == 131_073
    assert max(_query_lens(case)) > 8 * 16


def test_a_padded_case_has_free_pages_to_spare_unless_a_cache_holds_their_rows() -> None:
    without = Ladder(Domain(), NAMES - {"row_format"}).padded(513, 257)
    assert without is not None and without.layout.num_spare_blocks == 513
    case = LADDER.padded(513, 257)
    assert case is not None and case.layout.num_spare_blocks < 10


@pytest.mark.parametrize("name", DOMAINS)
def test_every_case_lies_in_the_domain(name: str) -> None:
    cases = _cases(Ladder(DOMAINS[name], NAMES))
    assert len(cases) >= 5
    for case in cases:
        assert DOMAINS[name].why_not(case) is None


def test_a_ladder_builds_the_same_cases_again() -> None:
    assert _cases(LADDER) == _cases(Ladder(Domain(), NAMES))


def _tiles(case: Case, size: int) -> list[tuple[tuple[int, int], ...]]:
    lens = list(zip(_context_lens(case), _query_lens(case), strict=True))
    return [tuple(lens[i : i + size]) for i in range(0, len(lens) - size, size)]


@pytest.mark.parametrize("size", [32, 128, 1024])
def test_no_two_tiles_of_a_large_case_are_alike(size: int) -> None:
    many = LADDER.many(16_385)
    assert many is not None
    for case in (many, large_case(3, num_requests=16_385, num_tokens=200_000)):
        tiles = _tiles(case, size)
        assert len(set(tiles)) == len(tiles)


def test_no_two_tiles_of_a_drawn_batch_of_many_requests_are_alike() -> None:
    drawn = (draw_case(SeededChoices(seed), Domain()) for seed in range(2000))
    many = [case for case in drawn if len(case.batch.requests) >= 127]
    assert len(many) >= 10
    for case in many:
        tiles = _tiles(case, 32)
        assert len(set(tiles)) == len(tiles)


@pytest.mark.parametrize("features", [NAMES, NAMES - {"router"}])
def test_a_large_case_has_a_long_prefill(features: frozenset[str]) -> None:
    for seed in range(3):
        assert max(_query_lens(large_case(seed, features=features))) >= 32_768


def test_busy_requests_have_several_blocks_each_and_some_lack_one_in_the_middle() -> None:
    case = LADDER.busy(515)
    assert case is not None
    assert len(case.batch.requests) == 515
    assert sum(case.batch.num_live_blocks(one) > 4 for one in case.batch.requests) > 100
    assert any(-1 in one.block_ids[1:-1] for one in case.batch.requests)


def test_some_busy_requests_have_no_row_unless_the_domain_promises_one_to_each() -> None:
    case = LADDER.busy(515)
    assert case is not None and case.layout.row_index is not None
    assert 10 < case.layout.row_index.count(-1) < 60
    promised = Ladder(Domain(rowless_requests=False), NAMES).busy(515)
    assert promised is not None and -1 not in (promised.layout.row_index or ())
    unmapped = Ladder(Domain(), {"missing_blocks"}).busy(515)
    assert unmapped is not None and unmapped.layout.row_index is None


def test_ranks_in_runs_take_as_many_positions_at_a_time_as_a_block_has() -> None:
    ranks = LADDER.in_runs(16)
    assert ranks is not None
    case = ranks.far(131_073)
    assert case is not None
    parallel = case.options.parallel
    assert (case.batch.world, parallel.rank) == (16, 15)
    assert parallel.interleave == case.batch.block_size > 1
    assert Ladder(Domain(), {"world"}).in_runs(16) is None


def test_a_lull_is_a_run_of_requests_without_new_tokens_with_and_without_context() -> None:
    case = LADDER.lulls(263)
    assert case is not None
    lens = list(zip(_context_lens(case), _query_lens(case), strict=True))
    starts = range(len(lens) - 262)
    assert any(all(one == (0, 0) for one in lens[b : b + 263]) for b in starts)
    assert any(all(c > 0 == q for c, q in lens[b : b + 263]) for b in starts)
    assert lens[-1][1] > 0


def test_a_ladder_on_ranks_stays_visible_to_an_operation_without_a_rank() -> None:
    ranks = Ladder(Domain(), {"world"}).on_ranks(8)
    assert ranks is not None
    case = ranks.far(9_000)
    assert case is not None
    assert (case.batch.world, case.options.parallel.rank) == (8, 0)


@pytest.mark.parametrize("dummy", [True, False])
def test_padded_requests_are_requests_of_a_domain(dummy: bool) -> None:
    domain = Domain(max_requests=5, dummy_request=(dummy,))
    ladder = Ladder(domain, NAMES)
    for case in (ladder.padded(37, 30), ladder.requests(5, 3), ladder.tokens(33, 4), ladder.edges((8,))):
        assert case is not None and case.num_requests_padded <= 5
        assert domain.why_not(case) is None
    drawn = [draw_case(SeededChoices(seed), domain) for seed in range(300)]
    assert max(case.num_requests_padded for case in drawn) == 5
    assert max(case.layout.num_padding_requests for case in drawn) == 5


def test_options_hold_together_or_as_far_as_they_vary() -> None:
    ladder = Ladder(Domain(), {"topk", "window"})
    both = ladder.under(topk=64, window=16)
    assert both is not None
    case = both.step([("decode", 3, 1)], seed=1)
    assert case is not None
    assert (case.options.selection.topk, case.options.keys.window) == (64, 16)
    assert ladder.under(topk=64, max_drafts=3) is None
    varied = ladder.preferring(max_drafts=3, topk=64).step([("decode", 3, 1)], seed=1)
    assert varied is not None
    assert (varied.options.selection.topk, varied.options.drafts.max_drafts) == (64, 0)
