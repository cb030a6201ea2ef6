"""Facts about steps of served models: their options, their kinds, and that they lie in a domain."""

from dataclasses import replace
from itertools import pairwise

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.operations import OPERATIONS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.models import MODELS, Served, served
from cumae.properties.steps.served import STEPS
from cumae.properties.steps.sized import TooLargeError
from cumae.properties.tests.steps.test_kinds import DOMAINS

FEW_BLOCKS = {name for name, domain in DOMAINS.items() if domain.max_block_id < 1_000}


def _made(step: str, model: str, count: int = 37, turn: int = 0) -> Case:
    case = STEPS[step](replace(dict(served(Ladder(Domain(), NAMES)))[model], turn=turn), count)
    assert case is not None
    return case


@pytest.mark.parametrize("name", DOMAINS)
def test_every_case_lies_in_the_domain_and_is_as_large_as_its_caller_is_told(name: str) -> None:
    domain, told = DOMAINS[name], list[tuple[int, ...]]()

    def admits(*size: int) -> bool:
        told.append(size)
        return True

    num_made = 0
    for _, model in served(Ladder(domain, NAMES, admits)):
        for turn, (step, build) in enumerate(STEPS.items()):
            told.clear()
            shares = step in ("two prompts", "prompts")
            case = None if shares and name in FEW_BLOCKS else build(replace(model, turn=turn), 19)
            if case is not None:
                num_made += 1
                assert domain.why_not(case) is None
                keys = sum(request.seq_len for request in case.batch.requests)
                assert told == [(len(case.batch.requests), case.batch.num_tokens, keys)]
    assert num_made > len(STEPS)


def test_a_step_that_is_not_admitted_is_not_built() -> None:
    def model(most: int) -> Served:
        ladder = Ladder(Domain(), NAMES, lambda requests, tokens, keys: requests <= most)
        return dict(served(ladder))["small pages"]

    with pytest.raises(TooLargeError):
        STEPS["crowd"](model(9 * 19 - 1), 19)
    assert STEPS["crowd"](model(9 * 19), 19)


def test_an_operation_gets_the_models_that_differ_for_it() -> None:
    models = {name: len(list(served(Ladder(Domain(), one.features)))) for name, one in OPERATIONS.items()}
    assert models["position_ids"] == 2
    assert len(MODELS) - 3 <= len(list(served(Ladder(Domain(), NAMES)))) <= len(MODELS)
    assert 5 <= models["slot_mapping"] < len(MODELS)


def test_a_model_has_its_options() -> None:
    case = _made("full graph", "eight ranks")
    assert (case.batch.world, case.batch.block_size) == (8, 64)
    assert (case.options.parallel.interleave, case.options.selection.topk) == (64, 2_048)
    assert _made("full graph", "hybrid").options.blocks.kernel_block_size == 64


def test_a_full_graph_has_as_many_padded_tokens_as_requests() -> None:
    for turn in range(6):
        case = _made("full graph", "small pages", turn=turn)
        assert case.num_tokens_padded == case.num_requests_padded > len(case.batch.requests) == 37
        assert case.num_tokens_padded in (40, 64, 256)
        assert {request.query_len for request in case.batch.requests} == {1}


@pytest.mark.parametrize("tokens", [2, 3, 4, 5, 8])
def test_verified_requests_have_all_drafts_and_contexts_around_the_limit(tokens: int) -> None:
    case = _made(f"{tokens} tokens each", "windows")
    requests = case.batch.requests
    assert {request.query_len for request in requests} == {tokens}
    assert {num_drafts_of(request, case.options.drafts.max_drafts) for request in requests} == {tokens - 1}
    lens = [request.context_len for request in requests]
    assert min(lens) < 64 and max(lens) > 1_088
    assert any(context_len <= 128 < context_len + tokens for context_len in lens)


def test_block_sizes_ranks_captured_sizes_room_and_order_change_with_the_turn() -> None:
    cases = [_made("full graph", "two ranks", turn=turn) for turn in range(12)]
    assert {case.batch.block_size for case in cases} == {16, 64}
    assert {case.options.parallel.rank for case in cases} == {0, 1}
    assert {case.layout.num_padding_requests for case in cases} == {-37 % size for size in (8, 64, 256)}
    assert {case.layout.num_spare_columns >= 67 <= case.layout.num_spare_rows for case in cases} == {
        True,
        False,
    }
    rows = [case.layout.row_index or () for case in cases]
    turned = [row for row in rows if row and [a > b for a, b in pairwise(row)].count(True) == 4]
    assert turned and turned[0][4] > turned[0][9]


def test_prompts_have_cached_pages_of_which_they_share_the_first() -> None:
    for turn in range(6):
        case = _made("prompts", "large pages", turn=turn)
        requests, size = case.batch.requests, case.batch.block_size
        assert min(request.query_len for request in requests) >= 128 and len(requests) > 9
        assert {request.context_len for request in requests} == {0, size, 2 * size}
        assert len({request.block_ids[0] for request in requests if request.context_len}) == 1


def test_long_chunks_stand_before_and_among_decodes() -> None:
    lens = [request.query_len for request in _made("chunks, then decodes", "small pages").batch.requests]
    assert [n for n in lens if n > 1] == [1_184, 520] and lens[0] == 1_184 and lens.index(520) > 9


@pytest.mark.parametrize(("step", "length"), [("one length", 1_024), ("half the length", 512)])
def test_decodes_have_one_length(step: str, length: int) -> None:
    assert {request.context_len for request in _made(step, "large pages").batch.requests} == {length}


def test_new_prompts_and_one_decode_have_nothing_beside_them() -> None:
    prompts, alone = _made("new prompts", "large pages"), _made("one decode", "large pages")
    assert {request.context_len for request in prompts.batch.requests} == {0}
    assert max(request.query_len for request in prompts.batch.requests) > 2_048
    (one,) = alone.batch.requests
    assert (one.query_len, one.seq_len % 512) == (1, 0) and one.seq_len > 4_096


def test_prompts_are_shared_to_two_depths_by_all_but_an_outsider() -> None:
    outsiders = set()
    for turn in range(9):
        tables = [
            request.block_ids for request in _made("two prompts", "large pages", turn=turn).batch.requests
        ]
        first = [table[0] for table in tables]
        alone = [b for b, page in enumerate(first) if first.count(page) == 1]
        assert alone in ([], [0], [36]) and len({*first}) == 1 + len(alone)
        outsiders |= {*alone}
        depths = [sum(a == b for a, b in zip(table, tables[1], strict=False)) for table in tables[2:-1]]
        assert set(depths) == {1, 3}
    assert outsiders == {0, 36}


def test_freed_pages_end_at_the_window() -> None:
    case = _made("freed pages", "small pages")
    freed = [request.block_ids.count(-1) for request in case.batch.requests]
    assert max(freed) > 64
    for request, count in zip(case.batch.requests, freed, strict=True):
        assert set(request.block_ids[:count]) <= {-1}
        assert count * 16 <= max(request.context_len + 1 - 128, 0)
