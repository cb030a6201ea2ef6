"""Valid slots in front of each row, in any order: which answers are right, and which checks say so."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import cumae
from cumae.fixtures.correct import selections
from cumae.oracle import Batch, Case, Inputs, Options, Request, compact_topk_slots, compact_topk_slots_faults
from cumae.properties.cases.domain import Domain
from cumae.properties.operations import JUDGED, OPERATIONS, UNORDERED
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.running.bench import Bench
from cumae.properties.search.direct import check
from cumae.properties.tests.functions import wrong_compact_slots as wrong

UNCAPTURED = Domain(captured=False)
CASE = Case(Batch((Request(5, 1, (9, 4), "decode"), Request(0, 1, (2,))), 4), options=Options.of(topk=4))
RIGHT = compact_topk_slots([0, 1], [[1, 4, 5, 3], [0, -1, 9, -1]], [[9, 4], [2, -1]], 4)


def faults(slots: list[int] | None, counts: list[int] | None) -> Sequence[str]:
    return compact_topk_slots_faults(RIGHT, 4, slots, counts)


class TestJudge:
    def test_the_right_answer_is_that_of_the_oracle(self) -> None:
        assert RIGHT == ([37, 16, 17, 39, 8, -1, -1, -1], [4, 1])

    def test_any_order_of_a_front_is_right(self) -> None:
        assert faults([39, 17, 37, 16, 8, -1, -1, -1], [4, 1]) == []

    def test_either_output_is_judged_without_the_other(self) -> None:
        assert faults(RIGHT.compact_slots, None) == faults(None, RIGHT.num_valid) == []
        assert faults(None, [4, 0]) == ["row 1: num_valid is 0, must be 1"]
        assert len(faults([39, 17, 37, 16, -1, 8, -1, -1], None)) == 2

    @pytest.mark.parametrize(
        ("slots", "counts", "said"),
        [
            (
                [37, 16, 17, 38, 8, -1, -1, -1],
                [4, 1],
                "row 0: the first 4 of compact_slots miss 39 and hold 38",
            ),
            (
                [37, 16, 17, 17, 8, -1, -1, -1],
                [4, 1],
                "row 0: the first 4 of compact_slots miss 39 and hold 17",
            ),
            (
                [8, 16, 17, 39, 37, -1, -1, -1],
                [4, 1],
                "row 0: the first 4 of compact_slots miss 37 and hold 8",
            ),
            ([37, 16, 17, 39, 8, 8, -1, -1], [4, 1], "row 1: compact_slots[5] is 8, must be -1"),
            ([37, 16, 17, 39, 8, -1, -1, -2], [4, 1], "row 1: compact_slots[7] is -2, must be -1"),
            ([37, 16, 17, 39, 8, -1, -1, -1], [4, 2], "row 1: num_valid is 2, must be 1"),
        ],
    )
    def test_a_fault_is_told_in_a_sentence(self, slots: list[int], counts: list[int], said: str) -> None:
        first, *_ = faults(slots, counts)
        assert first.startswith(said)


def test_only_the_front_may_change_places() -> None:
    binding = binding_of(selections.compact_topk_slots, "compact_topk_slots")
    expected = Bench(binding, CASE, "cpu").expected()
    counts = Inputs(CASE).call(compact_topk_slots).num_valid
    front = [UNORDERED] * counts[0] + [JUDGED] * (4 - counts[0]) + [UNORDERED] + [JUDGED] * 3
    assert expected["compact_slots"].state.tolist() == front
    assert expected["num_valid"].state.tolist() == [JUDGED] * 2
    assert expected["compact_slots"].is_specified.all()
    assert not expected["compact_slots"].is_repeatable[0]


def verdict_on(function: Callable[..., Any], **given: Any) -> cumae.Verdict:
    return check(function, "compact_topk_slots", domain=UNCAPTURED, save_to=None, **given)


@pytest.mark.parametrize("function", [wrong.in_another_order_at_each_call, selections.compact_topk_slots])
def test_no_check_accuses_an_order(function: Callable[..., Any]) -> None:
    verdict = verdict_on(function, examples=30)
    assert verdict.ok, verdict.failure


@pytest.mark.parametrize(
    ("function", "check_name", "said"),
    [
        (wrong.gaps_left_where_they_are, "agrees", r"row \d+: the first \d+ of compact_slots miss"),
        (wrong.first_slot_twice, "agrees", r"row \d+: the first \d+ of compact_slots miss \d+ and hold"),
        (wrong.slots_left_behind_the_last, "agrees", r"row \d+: compact_slots\[\d+\] is \d+, must be -1"),
        (wrong.selections_counted, "agrees", r"row \d+: num_valid is \d+, must be"),
        (wrong.last_valid_slot_left_alone, "writes_everything", r"`compact_slots\[\d+\]` was never written"),
        (wrong.nothing_behind_the_valid_ones, "writes_everything", r"`compact_slots\[\d+\]` was never"),
        (wrong.slots_moved_by_padding, "ignores_garbage", r"row \d+: .* instead, when unused entries held"),
        (wrong.first_slot_twice_when_asked_again, "is_deterministic", r"row \d+: .*, in a second launch"),
    ],
)
def test_what_is_wrong_fails_the_check_that_is_there_for_it(
    function: Callable[..., Any], check_name: str, said: str
) -> None:
    failure = verdict_on(function, checks=[check_name]).failure
    assert failure is not None
    assert failure.finding.check == check_name
    assert re.match(said, failure.finding.message), failure.finding.message
    assert len(failure.case.batch.requests) <= 2


@pytest.mark.parametrize("function", [wrong.last_valid_slot_left_alone, wrong.slots_moved_by_padding])
def test_what_another_check_finds_is_no_wrong_answer(function: Callable[..., Any]) -> None:
    assert verdict_on(function, checks=["agrees"]).ok


def test_a_failure_names_row_token_and_request() -> None:
    verdict = verdict_on(wrong.first_slot_twice, checks=["agrees"])
    assert verdict.failure is not None
    finding = verdict.failure.finding
    assert (finding.axis, finding.rule) == ("token", OPERATIONS["compact_topk_slots"].rule)
    assert finding.message.startswith(f"row {finding.index}: ")
    assert re.search(r"at token \d+: request \d+, position \d+", explain(verdict)), explain(verdict)
