"""Tours under a budget of seconds: what is expected to take too long, and the seconds of each part."""

import time
from types import SimpleNamespace
from typing import cast

import torch

from cumae.properties.cases.domain import Domain
from cumae.properties.running.volume import Volume
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.visitor import PATIENCE, SLOWER, Visitor
from cumae.properties.tests.search.test_tour import _positions


def wrong_in_long_requests(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    time.sleep(0.003)  # as long as a small kernel takes in the interpreter
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(lens) and int(lens.max()) > 4_000:
        position_ids[-1] = 7


def test_large_cases_are_not_expected_to_take_long_because_small_ones_alone_are_known() -> None:
    domain = Domain(captured=False)
    verdict = check(
        wrong_in_long_requests, "position_ids", domain=domain, examples=None, seconds=120, save_to=None
    )
    assert verdict.failure is not None
    assert verdict.left_out == 0 and verdict.cases < 150


class Timekeeper:
    """An examiner that knows the time alone."""

    device = "cpu"
    clock = Examiner.clock

    def __init__(self, pace: SimpleNamespace) -> None:
        self.pace = pace


def visitor_of(pace: SimpleNamespace, work: float) -> Visitor:
    """Return a visitor whose examiner knows the time alone."""
    return Visitor(cast(Examiner, Timekeeper(pace)), Volume(), work)


def test_a_part_of_a_tour_with_work_of_its_own_has_seconds_of_its_own() -> None:
    now = [0.0]
    pace = SimpleNamespace(budget=Budget(seconds=60), elapsed=lambda: now[0], is_late=lambda: False)
    visitor = visitor_of(pace, 12.0)

    def left_at(seconds: float) -> float:
        now[0] = seconds
        return visitor._left

    assert (left_at(11.0), left_at(20.0)) == (12.0, 0.0)
    with visitor.own_work(0.5):
        assert (left_at(25.9), left_at(26.1)) == (6.0, 0.0)
    assert left_at(20.0) == 0.0
    visitor.take_longer()
    assert (left_at(25.9), left_at(26.1)) == (12.0, 0.0)


def test_where_examples_are_counted_a_tour_ends_by_the_seconds_of_the_function_alone() -> None:
    timed = {"kernel": 0.0}
    pace = SimpleNamespace(
        budget=Budget(examples=60), elapsed=lambda: 1e6, is_late=lambda: False, timed=timed
    )
    visitor = visitor_of(pace, 10.0)

    def left_at(seconds: float) -> float:
        timed["kernel"] = seconds
        return visitor._left

    most = SLOWER * 10.0
    assert most > PATIENCE
    assert (left_at(most - 1), left_at(most + 1)) == (10.0, 0.0)
    with visitor.own_work(0.5):
        assert (left_at(1.5 * most), left_at(1.5 * most + 2)) == (5.0, 0.0)
    assert (left_at(1.5 * most), left_at(1.5 * most + 2)) == (10.0, 0.0)
    visitor.take_longer()
    assert (left_at(1.5 * most + PATIENCE + 1), left_at(1.5 * most + PATIENCE + 3)) == (10.0, 0.0)


def test_a_costly_check_waits_once_it_has_taken_its_share_of_the_seconds() -> None:
    pace = SimpleNamespace(budget=Budget(seconds=60), elapsed=lambda: 10.0)
    took = {"survives_large_ids": 3.0, "keeps_facts": 2.0}
    examiner = cast(Examiner, SimpleNamespace(pace=pace, _took=took))
    assert [Examiner._waits(examiner, name) for name in (*took, "agrees")] == [True, False, False]
    pace.budget = Budget(examples=60)
    assert not Examiner._waits(examiner, "survives_large_ids")
