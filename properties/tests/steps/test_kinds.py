"""Facts about steps whose requests are all of one kind, and about requests that stand alone in one way."""

from functools import partial

import pytest

from cumae.oracle import PAGE_ORDERS, Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps import engine_steps, steps_of_one_kind
from cumae.properties.steps.kinds import KINDS, Build
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.steps_of_one_kind import DRAFTS

LADDER = Ladder(Domain(), NAMES)
DOMAINS = {
    "everything": Domain(),
    "decodes": Domain(phases=("decode",)),
    "prefills": Domain(phases=("prefill",)),
    "whole prefixes": Domain(whole_prefixes=True),
    "uniform decodes": Domain(phases=("decode",), uniform_decodes=True),
    "verify steps": Domain(phases=("decode",), verify_steps=True),
    "decodes first": Domain(order="decodes_first"),
    "few requests": Domain(max_requests=3),
    "some requests": Domain(min_requests=9, min_tokens=5),
    "few tokens": Domain(max_tokens=100),
    "short": Domain(max_context_len=30, max_query_len=20),
    "no padding": Domain(padding="none"),
    "few blocks": Domain(max_block_id=600, reserved_blocks=1),
    "a request of few blocks": Domain(min_requests=1, empty_requests=False, max_block_id=100),
    "requests of few tokens": Domain(min_requests=7, uniform_decodes=True, max_tokens=64),
    "one block size": Domain(block_sizes=(64,)),
    "no empty requests": Domain(empty_requests=False),
    "no rowless requests": Domain(rowless_requests=False, missing_blocks=False),
    "dummy request": Domain(dummy_request=(True,)),
    "kernel blocks": Domain(kernel_block_size=(16,), block_sizes=(16, 64)),
    "drafts": Domain(max_drafts=(2,)),
}


def _made(build: Build, size: int) -> Case:
    case = build(LADDER, size)
    assert case is not None
    return case


def _lens(case: Case) -> list[tuple[int, int]]:
    return [(request.context_len, request.query_len) for request in case.batch.requests]


@pytest.mark.parametrize("name", DOMAINS)
def test_every_case_lies_in_the_domain(name: str) -> None:
    domain = DOMAINS[name]
    made = [build(Ladder(domain, NAMES), sizes[-1]) for build, sizes in KINDS.values()]
    cases = [case for case in made if case is not None]
    assert len(cases) >= 10
    for case in cases:
        assert domain.why_not(case) is None


def test_an_operation_that_varies_no_option_gets_the_kinds_that_need_none() -> None:
    made = {name: build(Ladder(Domain(), ()), sizes[-1]) for name, (build, sizes) in KINDS.items()}
    assert made["decodes"] is not None and made["in blocks of 64"] is not None
    assert made["in windows"] is made["in chunks of 64"] is made["in order packed"] is None


def test_decodes_are_one_more_than_whole_tiles_and_are_not_padded() -> None:
    case = _made(steps_of_one_kind.decodes, 1_025)
    assert {query_len for _, query_len in _lens(case)} == {1}
    assert case.num_tokens_padded == case.num_requests_padded == 1_025


def test_verified_decodes_all_have_as_many_drafts_and_fill_a_power_of_two_of_rows() -> None:
    case = _made(steps_of_one_kind.verified, 254)
    assert {num_drafts_of(one, case.options.drafts.max_drafts) for one in case.batch.requests} == {DRAFTS}
    assert (case.num_tokens_padded, case.num_requests_padded) == (2_048, 510)
    assert case.layout.num_padding_requests > len(case.batch.requests)


def test_first_chunks_fill_whole_tiles_of_requests_and_of_tokens() -> None:
    case = _made(steps_of_one_kind.first_chunks, 512)
    assert len(case.batch.requests) == 512 and case.num_tokens_padded == 2_048
    assert {context_len for context_len, _ in _lens(case)} == {0}
    assert max(query_len for _, query_len in _lens(case)) == _lens(case)[-1][1]


def test_pages_are_all_begun_or_all_filled() -> None:
    begun, filled = _made(steps_of_one_kind.begun_pages, 67), _made(steps_of_one_kind.filled_pages, 67)
    size = begun.batch.block_size
    assert size > 1
    assert {(context_len % size, query_len) for context_len, query_len in _lens(begun)} == {(0, 1)}
    assert {request.seq_len % size for request in filled.batch.requests} == {0}


@pytest.mark.parametrize(
    ("build", "at"), [(steps_of_one_kind.first_alone, 0), (steps_of_one_kind.last_alone, 66)]
)
def test_one_request_has_tokens_and_drafts_and_others_have_context(build: Build, at: int) -> None:
    case = _made(build, 67)
    assert [b for b, (_, query_len) in enumerate(_lens(case)) if query_len] == [at]
    assert num_drafts_of(case.batch.requests[at], case.options.drafts.max_drafts) == DRAFTS
    assert {bool(context_len) for b, (context_len, _) in enumerate(_lens(case)) if b != at} == {False, True}


def test_one_request_among_decodes_has_several_tokens() -> None:
    case = steps_of_one_kind.among_decodes(LADDER, 67)
    assert case is not None
    lens = [query_len for _, query_len in _lens(case)]
    assert len(lens) == 68 and [n for n in lens if n != 1] == [6]
    assert lens[0] == lens[-1] == 1
    case = steps_of_one_kind.among_decodes(LADDER, 67, 5)
    assert case is not None
    lens = [query_len for _, query_len in _lens(case)]
    assert sum(lens) == len(lens) and sorted({*lens}) == [0, 1, 6]


def test_cached_tokens_of_a_heavy_step_pass_what_fp32_counts() -> None:
    case = steps_of_one_kind.heavy(LADDER, 2**20)
    assert case is not None and case.options.keys.compress_ratio == 1
    contexts = [request.context_len for request in case.batch.requests]
    assert sum(contexts) > 2**24 and sum(contexts) % 2
    assert sum(len(request.block_ids) for request in case.batch.requests) < 20_000


def test_a_single_request_is_as_long_as_asked_for() -> None:
    assert _lens(_made(steps_of_one_kind.single, 1_029)) == [(514, 1_029)]


def test_columns_are_all_full() -> None:
    case = _made(steps_of_one_kind.full_columns, 256)
    assert case.num_page_columns % 256 == 0 == case.layout.page_slack
    assert max(request.seq_len for request in case.batch.requests) == case.num_page_columns * (
        case.tokens_per_entry
    )


@pytest.mark.parametrize("size", [1, 8, 32, 64, 128, 256])
def test_blocks_of_each_size_have_long_prefills_and_a_wide_row(size: int) -> None:
    case = _made(partial(engine_steps.in_blocks_of, size), 1_029)
    assert case.kernel_block_size == case.batch.block_size == size
    assert max(case.batch.num_live_blocks(request) for request in case.batch.requests) > 128
    assert sum(query_len > 256 for _, query_len in _lens(case)) == 2


@pytest.mark.parametrize("size", [64, 256])
def test_a_rank_takes_a_whole_block_of_several_groups_at_a_time(size: int) -> None:
    case = _made(partial(engine_steps.in_runs_of, size), 261)
    parallel, keys = case.options.parallel, case.options.keys
    assert (case.batch.block_size, parallel.interleave, case.batch.world) == (size, size, 4)
    assert parallel.rank == 3 and size // keys.compress_ratio > 1 < keys.compress_ratio
    assert max(context_len for context_len, _ in _lens(case)) > 3 * 4 * size
    assert engine_steps.in_runs_of(size, Ladder(Domain(), {"world"}), 261) is None


def test_most_tokens_of_a_windowed_case_see_a_whole_window() -> None:
    case = _made(engine_steps.in_windows, 1_040)
    window = case.options.keys.window
    seen = [min(c + i + 1, window) for c, q in _lens(case) for i in range(q)]
    assert window == 128 and len(seen) == 1_040 and seen.count(window) > 700
    assert sum(request.seq_len > window for request in case.batch.requests) > 64


@pytest.mark.parametrize("absolute", [False, True])
def test_chunks_are_whole_at_several_parts_of_a_position(absolute: bool) -> None:
    case = _made(partial(engine_steps.in_chunks, absolute), 64)
    chunks = case.options.chunks
    assert (chunks.chunk_size, chunks.absolute_chunks) == (64, absolute)
    assert sum(query_len > 64 and query_len % 64 == 0 for _, query_len in _lens(case)) == 1 + absolute
    fresh = {query_len for context_len, query_len in _lens(case) if not context_len}
    assert fresh == ({63, 64, 65, 127, 128, 129} if absolute else {127})
    assert any(context_len % 64 and query_len > 64 for context_len, query_len in _lens(case))
    rows_only = engine_steps.in_chunks(absolute, Ladder(Domain(), {"chunk_size"}), 64)
    assert (rows_only is None) == absolute


@pytest.mark.parametrize("order", PAGE_ORDERS)
def test_pages_of_each_order_have_many_rows(order: str) -> None:
    case = _made(partial(engine_steps.in_order, order), 700)
    assert case.options.heads.page_order == order
    assert case.batch.num_tokens > 700 and len(case.batch.requests) > 32


@pytest.mark.parametrize(
    ("name", "shape", "kind"), [("ties", (384, 1), "ties"), ("NaN", (256, 8), "nan_and_inf")]
)
def test_a_router_of_engines_has_logits_of_one_kind(name: str, shape: tuple[int, int], kind: str) -> None:
    build, sizes = KINDS[f"routed by {name}"]
    case = build(LADDER, sizes[0])
    assert case is not None
    router = case.options.router
    assert (router.num_experts, router.num_groups) == shape and router.logits_kind == kind
    assert case.batch.num_tokens == sizes[0]
    unusual = Ladder(Domain(logits_kind=("random",)), NAMES)
    case = build(unusual, sizes[0])
    assert case is not None and case.options.router.logits_kind == "random"


@pytest.mark.parametrize("in_powers", [False, True])
def test_many_rows_are_quantised(in_powers: bool) -> None:
    case = engine_steps.in_rows_of("fp8", in_powers, LADDER, 1_100)
    assert case is not None
    assert case.options.rows.row_format == "fp8" and case.options.rows.power_of_two_scales == in_powers
    assert case.batch.num_tokens > 1_100
    assert engine_steps.in_rows_of("fp8", False, Ladder(Domain(row_format=("bf16",)), NAMES), 1_100) is None


def test_items_are_as_many_as_workers_take_at_a_time() -> None:
    case = engine_steps.for_all_workers(LADDER, 264)
    assert case is not None
    schedule = case.options.schedule
    assert (len(case.batch.requests), schedule.num_workers) == (2 * 132, 132)
    assert max(request.seq_len for request in case.batch.requests) <= schedule.split_size == 256
    assert engine_steps.for_all_workers(Ladder(Domain(), ()), 264) is None
