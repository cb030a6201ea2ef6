"""Facts about the steps of busy engines: which requests are the same, where a run ends, what is shared."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from cumae.oracle import SELECTION_ORDERS, Case, Phase, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps import production
from cumae.properties.steps.collisions import changed_far, exchanged, in_other_phases
from cumae.properties.steps.growth import advanced, shrunk_again, verified_unevenly
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.moved_blocks import in_far_rows, in_other_blocks, in_other_layers

LADDER = Ladder(Domain(), NAMES)


def _made(case: Case | None) -> Case:
    assert case is not None
    return case


def _lens(case: Case) -> list[tuple[int, int]]:
    return [(request.context_len, request.query_len) for request in case.batch.requests]


def test_requests_are_the_same_and_not_padded() -> None:
    case = _made(production.identical(("decode", 16, 1), LADDER, 131))
    assert _lens(case) == [(16, 1)] * 131 and case.num_requests_padded == 131


@pytest.mark.parametrize("kind", production.RUNS)
def test_behind_a_run_of_one_kind_stands_one_of_each_kind_in_rows_that_go_back(kind: str) -> None:
    case = _made(production.run_and_others(kind, LADDER, 133))
    assert _lens(case)[133:] == [(context, new) for _, context, new in production.OTHERS]
    assert max(new for _, new in _lens(case)[:133]) <= 6
    rows = case.layout.row_index
    assert rows is None or -1 in rows or list(rows[133:]) == sorted(rows[133:], reverse=True)


def test_the_others_may_stand_before_and_prefills_keys_may_count_alone() -> None:
    case = _made(production.run_and_others("decodes", LADDER, 69, behind=False))
    assert _lens(case)[0] == (4_177, 1) and _lens(case)[-1][1] == 1
    scoped = _made(production.run_and_others("decodes", LADDER, 69, scope="prefill"))
    assert scoped.options.keys.key_scope == "prefill"
    assert production.run_and_others("decodes", Ladder(Domain(), ()), 69, scope="prefill") is None


def test_all_decodes_share_the_pages_of_a_prompt() -> None:
    case = _made(production.with_one_prompt(3, LADDER, 67))
    assert len({request.block_ids[:67] for request in case.batch.requests}) == 1
    assert len({request.block_ids[67] for request in case.batch.requests}) == 3


def test_pages_lie_in_a_row_but_for_one_place() -> None:
    case = _made(production.in_a_row(LADDER, 19))
    steps = [{b - a for a, b in zip(r.block_ids, r.block_ids[1:], strict=False)} for r in case.batch.requests]
    assert steps[0] == {1} and steps[1] == {1, 2, -1} and len(steps[2]) == 2 and steps[3] == {-1}
    assert production.in_a_row(Ladder(Domain(block_sizes=(16,)), NAMES), 19, block_size=1) is None


def test_decodes_lack_pages_between_others() -> None:
    case = _made(production.holey_decodes(False, LADDER, 67))
    ids = [request.block_ids for request in case.batch.requests]
    assert any(-1 in row[1 : len(row) - 1] and row[0] >= 0 and row[-1] >= 0 for row in ids)


def test_two_late_requests_take_each_others_lengths() -> None:
    trace = exchanged(LADDER, 131, 129)
    assert isinstance(trace, Trace)
    late = [_lens(step)[129:] for step in trace.steps]
    assert late[1] == [(7, 2), (9, 1)] and late[5] == [(9, 2), (7, 1)]
    assert len({tuple(_lens(step)[:129]) for step in trace.steps}) == 1


def test_decodes_advance_by_a_token_each_but_for_what_else_changes() -> None:
    trace = advanced(LADDER)
    assert isinstance(trace, Trace)
    lens = [[context for context, _ in _lens(step)] for step in trace.steps]
    more = [{b - a for a, b in zip(*pair, strict=True)} for pair in pairwise(lens)]
    assert [pair == {1} for pair in more] == [True, False, False, False, False, True, True, True]
    assert {sum(b) - sum(a) for a, b in pairwise(lens)} == {len(lens[0])}
    tables = [[request.block_ids for request in step.batch.requests] for step in trace.steps]
    other = [
        [b for b, (one, two) in enumerate(zip(*pair, strict=True)) if one != two] for pair in pairwise(tables)
    ]
    assert other == [[]] * 4 + [[], [6], [6], [6]]
    assert sorted(tables[8][6]) == sorted(tables[7][6]) and tables[6][6][:-1] == tables[5][6][:-1]


def test_long_decodes_change_by_a_token_that_halves_do_not_show() -> None:
    trace = changed_far(LADDER)
    assert isinstance(trace, Trace)
    first = [step.batch.requests[0].context_len for step in trace.steps]
    assert len({*first}) == 2 and len({float(np.float16(length)) for length in first}) == 1
    for step in trace.steps:
        topk = step.options.selection.topk
        assert topk - 3 <= step.batch.requests[1].context_len < topk < step.batch.requests[1].seq_len + 1


@pytest.mark.parametrize("other", ["prefill", "decode"])
def test_one_request_changes_its_phase_alone_or_with_another(other: Phase) -> None:
    for scope in ("prefill", "all"):
        trace = in_other_phases(scope, other, LADDER)
        assert isinstance(trace, Trace)
        phases = [tuple(request.phase for request in step.batch.requests[2:4]) for step in trace.steps]
        assert phases == [("decode", "prefill"), ("prefill", other), ("decode", "prefill")]
        assert len({tuple(_lens(step)) for step in trace.steps}) == 1
        assert {step.options.keys.key_scope for step in trace.steps} == {scope}


def test_verified_requests_grow_by_different_numbers() -> None:
    trace = verified_unevenly(LADDER)
    assert isinstance(trace, Trace)
    lens = [[context for context, _ in _lens(step)] for step in trace.steps]
    assert [len({b - a for a, b in zip(*pair, strict=True)}) for pair in pairwise(lens)] == [1, 4, 1, 4]


def test_equal_lengths_come_back_in_other_blocks_idle_and_hidden() -> None:
    trace = in_other_blocks(LADDER)
    assert isinstance(trace, Trace)
    base, *others = trace.steps
    tables = [[request.block_ids for request in step.batch.requests] for step in others[:23:2]]
    own = [request.block_ids for request in base.batch.requests]
    assert all(table != own and list(map(len, table)) == list(map(len, own)) for table in tables)
    assert [ids[0] for ids in tables[1]] == [ids[0] for ids in own]
    pages = [range(base.batch.num_live_blocks(request)) for request in base.batch.requests]
    stay = [
        [{j for j in live if ids[j] == mine[j]} for live, ids, mine in zip(pages, table, own, strict=True)]
        for table in tables
    ]
    last = [{live[-1]} for live in pages]
    assert stay[:3] == [[set()] * len(own), [{0}] * len(own), last]
    assert stay[3] == [{0} | each for each in last]
    assert {len(each) for each in stay[4]} == {5, 4, 3, 33}
    assert tables[5][:-1] == own[:-1] and tables[5][-1] != own[-1]
    for exchanged_in, table in zip(([1, 4], [3, 4], [0], [4], [3]), tables[7:], strict=True):
        assert sorted(i for ids in table for i in ids) == sorted(i for ids in own for i in ids)
        assert [b for b, ids in enumerate(table) if ids != own[b]] == exchanged_in
    assert all(tables[10][4][at] == own[4][at] for at in (0, -1))
    assert not others[24].batch.num_tokens
    assert [step.layout.host_lens for step in others[-4:]] == [True, False, False, True]


def test_a_domain_of_any_order_gets_what_it_promises() -> None:
    sorted_steps = Domain(order="decodes_first")
    for name in ("decodes, then others", "others, then decodes", "prompts, then others"):
        build, sizes = KINDS[name]
        assert sorted_steps.why_not(_made(partial(build, Ladder(sorted_steps, NAMES))(sizes[-1]))) is None


def test_one_decode_is_far_longer_than_the_others() -> None:
    lens = sorted(_lens(_made(production.with_one_far(LADDER, 37))))
    assert lens[-1] == (33_023, 1) and lens[-2][0] <= 300


@pytest.mark.parametrize(("rows", "padded"), [(10, 259), (0, 0)])
def test_a_captured_size_may_have_no_request(rows: int, padded: int) -> None:
    case = _made(production.for_nobody(rows, LADDER, 259))
    assert not case.batch.requests
    assert (case.num_tokens_padded, case.num_requests_padded) == (259, padded)
    whole = Ladder(Domain(min_requests=1, padding="none"), NAMES)
    assert len(_made(production.for_nobody(rows, whole, 259)).batch.requests) == 1


def test_a_captured_size_may_have_few_requests() -> None:
    case = _made(production.few_of_many(LADDER, 119))
    assert len(case.batch.requests) == case.batch.num_tokens == 9
    assert (case.num_tokens_padded, case.num_requests_padded) == (128, 128)


def test_rows_of_a_table_move_by_whole_tiles() -> None:
    trace = in_far_rows(LADDER)
    assert isinstance(trace, Trace)
    first, *others = [step.layout.row_index or () for step in trace.steps]
    moved = [{row - own for row, own in zip(rows, first, strict=True)} for rows in others]
    assert moved == [{64}, {0}, {128}, {0}]
    assert len({tuple(step.batch.requests) for step in trace.steps}) == 1
    assert in_far_rows(Ladder(Domain(), ())) is None


def test_a_step_is_smaller_than_the_one_before_wherever_a_byte_begins_anew() -> None:
    trace = shrunk_again(LADDER)
    assert trace is not None and len(trace.steps) > 256
    tokens = [one.batch.num_tokens for one in trace.steps]
    assert all(tokens[2**k] < tokens[2**k - 1] for k in range(9))


def test_each_layer_selects_other_keys_of_the_same_step() -> None:
    trace = in_other_layers(LADDER)
    assert trace is not None and len({one.batch for one in trace.steps}) == 1
    orders = [one.options.selection.selection_order for one in trace.steps]
    assert set(orders) == set(SELECTION_ORDERS) and orders[0] == orders[-1]
    assert in_other_layers(Ladder(Domain(selection_order=("rising",)), NAMES)) is None
