"""Facts about traces of batches whose requests end, arrive, take turns, or come back."""

from itertools import pairwise

import pytest

from cumae.oracle import Trace
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.alike import LIMITS, limited_of, telling_of
from cumae.properties.steps.churn import (
    CHUNK,
    CROWD,
    LONGEST,
    RUNNING,
    behind_a_prompt,
    beside_saturated,
    churned,
    in_a_crowd,
    in_equal_chunks,
    in_other_hands,
    in_two_batches,
    past_windows,
    saturated,
    verified_in_turns,
)
from cumae.properties.steps.ladder import Ladder

LADDER = Ladder(Domain(), NAMES)


def _churned(world: int) -> Trace:
    ladder = LADDER if world == 1 else LADDER.on_ranks(world)
    assert ladder is not None
    trace = churned(telling_of(ladder))
    assert trace is not None
    return trace


@pytest.mark.parametrize("world", [1, 2])
def test_all_grow_by_a_token_but_those_that_come_or_move(world: int) -> None:
    contexts = [[r.context_len for r in step.batch.requests] for step in _churned(world).steps[:6]]
    changed = [
        [b for b, (one, other) in enumerate(zip(before, after, strict=False)) if other != one + 1]
        for before, after in pairwise(contexts)
    ]
    assert changed[:4] == [[], [4, 20], [], [7, 11]]
    assert [len(lens) for lens in contexts] == [68, 68, 67, 67, 67, 67]
    assert changed[4] == [LONGEST] and contexts[4][LONGEST] == max(contexts[4]) > max(contexts[5])


def test_a_request_keeps_its_pages_and_its_row() -> None:
    first, second, third = _churned(1).steps[:3]
    assert [r.block_ids for r in first.batch.requests] == [r.block_ids for r in second.batch.requests]
    assert third.batch.requests[20].block_ids == second.batch.requests[RUNNING - 1].block_ids
    assert third.layout.row_index is not None and second.layout.row_index is not None
    assert third.layout.row_index[20] == second.layout.row_index[RUNNING - 1]


def test_two_parts_take_turns() -> None:
    assert [len(step.batch.requests) for step in _churned(1).steps[6:11]] == [20, 47, 20, 47, 20]


def test_a_preempted_one_comes_back_at_its_old_length_in_other_pages() -> None:
    before, without, again = (step.batch.requests for step in _churned(1).steps[11:14])
    assert len(without) == len(before) - 1
    assert again[5].context_len == before[5].context_len
    assert {*again[5].block_ids}.isdisjoint(i for request in before for i in request.block_ids)


def test_drafts_are_as_many_in_turns_but_elsewhere() -> None:
    trace = verified_in_turns(LADDER)
    assert trace is not None
    drafts = [[num_drafts_of(r, 3) for r in step.batch.requests] for step in trace.steps]
    assert sum(drafts[0]) == sum(drafts[1])
    assert drafts[0] != drafts[1]


def test_decodes_come_again_behind_a_long_prompt() -> None:
    trace = behind_a_prompt(telling_of(LADDER), 2_100)
    assert trace is not None
    before, prompt, again = (step.batch for step in trace.steps)
    assert before.requests == again.requests
    assert prompt.num_tokens > 2_048


def test_limited_steps_have_windows_rings_and_groups() -> None:
    for feature, held in (("window", "keys"), ("ring_capacity", "ring"), ("compress_ratio", "keys")):
        (limited,) = limited_of(Ladder(Domain(), {feature}))
        trace = churned(limited)
        assert trace is not None
        assert getattr(getattr(trace.steps[0].options, held), feature) == LIMITS[feature]
    assert not limited_of(Ladder(Domain(), ()))


def test_a_prompt_takes_the_place_of_another_whose_next_chunk_it_looks_like() -> None:
    trace = in_equal_chunks(telling_of(LADDER))
    assert trace is not None
    chunks = [step.batch.requests[-1] for step in trace.steps]
    assert {chunk.query_len for chunk in chunks} == {CHUNK}
    assert [chunk.context_len for chunk in chunks] == [0, CHUNK, 0, 0, 0, CHUNK, 0, 0]
    assert chunks[1].block_ids == chunks[0].block_ids != chunks[2].block_ids
    grown = [[r.context_len for r in step.batch.requests[:-1]] for step in trace.steps[4:]]
    assert all(after == [n + 1 for n in before] for before, after in pairwise(grown))


def test_others_have_as_many_drafts_beyond_a_selection() -> None:
    trace = saturated(LADDER)
    assert trace is not None
    lens = [[r.query_len for r in step.batch.requests] for step in trace.steps]
    assert lens[0] != lens[1] and lens[0] == lens[2]
    for step in trace.steps:
        assert min(r.context_len for r in step.batch.requests) > step.options.selection.topk


def test_rows_of_groups_change_hands() -> None:
    (limited,) = limited_of(Ladder(Domain(), {"compress_ratio"}))
    trace = in_other_hands(limited)
    assert trace is not None
    first, second, _ = (step.batch.requests for step in trace.steps)
    assert [r.context_len + 4 for r in first] == [r.context_len for r in second]
    assert all(r.context_len % 4 == 3 for r in first)
    assert {i for r in first for i in r.block_ids}.isdisjoint(i for r in second for i in r.block_ids)


@pytest.mark.parametrize("world", [1, 2])
def test_a_crowd_grows_and_two_change_places(world: int) -> None:
    ladder = LADDER if world == 1 else LADDER.on_ranks(world)
    assert ladder is not None
    trace = in_a_crowd(telling_of(ladder))
    assert trace is not None
    steps = [step.batch.requests for step in trace.steps]
    lens = [[r.context_len for r in requests] for requests in steps]
    assert {len(one) for one in lens} == {CROWD}
    assert lens[1] == [n + 1 for n in lens[0]] and lens[3] == [n + 1 for n in lens[2]]
    moved = [b for b in range(CROWD) if lens[2][b] != lens[1][b] + 1]
    assert len(moved) == 2 and min(moved) > 128
    assert lens[4] == lens[3] and steps[4] != steps[3]
    assert sum(lens[5]) == sum(lens[4]) and lens[5] != lens[4]


@pytest.mark.parametrize("window", [512, 4_096])
def test_decodes_leave_pages_behind_their_window(window: int) -> None:
    trace = past_windows(window, LADDER)
    assert trace is not None
    size = trace.steps[0].batch.block_size
    firsts = [[(r.context_len + 1 - window) // size for r in step.batch.requests] for step in trace.steps]
    assert min(map(min, firsts)) >= 0 and firsts[0] != firsts[-1]
    before, last = trace.steps[-2].batch.requests, trace.steps[-1].batch.requests
    assert [r.context_len + 1 for r in before] == [r.context_len for r in last]
    assert {i for r in before for i in r.block_ids}.isdisjoint(i for r in last for i in r.block_ids)


@pytest.mark.parametrize("at", [63, 0])
def test_a_saturated_request_changes_places_with_a_short_one(at: int) -> None:
    trace = beside_saturated(LADDER, 67, at)
    assert trace is not None
    first, second, third = ([r.context_len for r in step.batch.requests] for step in trace.steps)
    topk = trace.steps[0].options.selection.topk
    assert first == third and sorted(first) == sorted(second)
    assert [b for b in range(67) if first[b] != second[b]] == [at, at + 1]
    assert first[at] >= topk > first[at + 1]


def test_two_batches_take_turns_and_one_changes_between_its_ends() -> None:
    trace = in_two_batches(telling_of(LADDER))
    assert trace is not None
    contexts = [[r.context_len for r in step.batch.requests] for step in trace.steps]
    for before, after in pairwise(contexts[:4:2]):
        assert after == [n + 1 for n in before]
    for before, after in pairwise(contexts[1:4:2]):
        assert after == [n + 1 for n in before]
    for before, after in (contexts[2::2], contexts[3::2]):
        assert (after[0], after[-1]) == (before[0] + 1, before[-1] + 1)
        assert after != [n + 1 for n in before]
