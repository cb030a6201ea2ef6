"""Facts about steps of served models: their options, their kinds, and that they lie in a domain."""

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.ladder import Ladder
from cumae.properties.cases.served import MODELS, STEPS, served
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.cases.test_kinds import DOMAINS

FEW_BLOCKS = {name for name, domain in DOMAINS.items() if domain.max_block_id < 1_000}


def _made(step: str, model: str, count: int = 37) -> Case:
    case = STEPS[step](dict(served(Ladder(Domain(), NAMES)))[model], count)
    assert case is not None
    return case


@pytest.mark.parametrize("name", DOMAINS)
def test_every_case_lies_in_the_domain(name: str) -> None:
    domain = DOMAINS[name]
    num_made = 0
    for _, model in served(Ladder(domain, NAMES)):
        for step, build in STEPS.items():
            case = None if step == "two prompts" and name in FEW_BLOCKS else build(model, 19)
            if case is not None:
                num_made += 1
                assert domain.why_not(case) is None
    assert num_made > len(STEPS)


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
    case = _made("full graph", "blocks of 16")
    assert (case.num_tokens_padded, case.num_requests_padded) == (40, 40)
    assert {request.query_len for request in case.batch.requests} == {1}


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_verified_requests_have_all_drafts_and_contexts_around_the_limit(tokens: int) -> None:
    case = _made(f"{tokens} tokens each", "windows")
    requests = case.batch.requests
    assert {request.query_len for request in requests} == {tokens}
    assert {num_drafts_of(request, case.options.drafts.max_drafts) for request in requests} == {tokens - 1}
    lens = [request.context_len for request in requests]
    assert min(lens) < 64 and max(lens) > 1_088
    assert any(context_len <= 128 < context_len + tokens for context_len in lens)


def test_new_prompts_and_one_decode_have_nothing_beside_them() -> None:
    prompts, alone = _made("new prompts", "blocks of 64"), _made("one decode", "blocks of 64")
    assert {request.context_len for request in prompts.batch.requests} == {0}
    assert max(request.query_len for request in prompts.batch.requests) > 2_048
    (one,) = alone.batch.requests
    assert (one.query_len, one.seq_len % 512) == (1, 0) and one.seq_len > 4_096


def test_prompts_are_shared_to_two_depths() -> None:
    tables = [request.block_ids for request in _made("two prompts", "blocks of 64").batch.requests]
    assert len({table[0] for table in tables}) == 1
    depths = [sum(a == b for a, b in zip(table, tables[0], strict=False)) for table in tables[1:]]
    assert set(depths) == {1, 3}


def test_freed_pages_end_at_the_window() -> None:
    case = _made("freed pages", "blocks of 16")
    freed = [request.block_ids.count(-1) for request in case.batch.requests]
    assert max(freed) > 64
    for request, count in zip(case.batch.requests, freed, strict=True):
        assert set(request.block_ids[:count]) <= {-1}
        assert count * 16 <= max(request.context_len + 1 - 128, 0)
