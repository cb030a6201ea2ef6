"""A fault of the hundredth step is found, reduced in few tries, told in a few lines and saved."""

from pathlib import Path

import pytest
import torch

from cumae.fixtures.limits import LIMITS, Limit, step
from cumae.oracle import Trace, leveled
from cumae.properties.cases import trace_reducer
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.trace_reducer import reduce_trace
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.steps import draw_steps, svg_steps
from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.child import NextStep
from cumae.properties.search.child_search import _as_told_after
from cumae.properties.search.loop import search
from cumae.properties.search.traces import TraceRun
from cumae.properties.state.walks import trace_of

DEVICE = prepare("auto")
AGE = next(limit for limit in LIMITS if limit.where.endswith(":AgeInAByte"))
PLANS = next(limit for limit in LIMITS if limit.where.endswith(":FreesPlansWhenIdle"))


def long_trace(count: int) -> Trace:
    return leveled([step((k % 7, 1 + k % 3), (k % 5, 1)) for k in range(count)])


def test_a_fault_after_a_hundred_calls_is_reduced_to_equal_steps_in_few_tries() -> None:
    tries = 0

    def fails(trace: Trace) -> bool:
        nonlocal tries
        tries += 1
        return len(trace.steps) >= 100 and trace.steps[-1].batch.num_tokens > 1

    reduced = reduce_trace(long_trace(130), fails)
    assert len(reduced.steps) == 100 and tries < 100
    assert len(set(reduced.steps)) == 1 and reduced.steps[-1].batch.num_tokens == 2


def test_lengths_and_the_selection_are_halved_together() -> None:
    def fails(trace: Trace) -> bool:
        topk = trace.steps[-1].options.selection.topk
        return all(r.query_len * 2 >= topk > 1 for step in trace.steps for r in step.batch.requests)

    steps = [step((256 * k, 256), topk=512, split_size=64) for k in range(3)]
    reduced = reduce_trace(leveled(steps), fails)
    assert [r.query_len for last in reduced.steps for r in last.batch.requests] in ([], [1])
    assert reduced.steps[0].options.selection.topk == 2


def test_no_trace_is_tried_twice_and_the_steps_tried_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Trace] = []

    def never(trace: Trace) -> bool:
        tried.append(trace)
        return False

    monkeypatch.setattr(trace_reducer, "MOST_STEPS", 2000)
    assert reduce_trace(long_trace(40), never) == long_trace(40)
    assert len(set(tried)) == len(tried)
    assert 1000 < sum(len(trace.steps) for trace in tried) <= 2000


@pytest.mark.parametrize("limit", [AGE, PLANS], ids=lambda limit: limit.where)
def test_a_fault_of_a_late_step_is_found_reduced_and_saved(limit: Limit, tmp_path: Path) -> None:
    binding = binding_of(load_function(limit.target), limit.operation, domain=Domain(captured=False))
    first = [Trace(tuple(trace_of(binding, 9)))]
    budget = Budget(examples=0, most_shrinking=4)
    verdict = search(binding, DEVICE, budget, checks=["forgets_history"], first=first, save_to=tmp_path)
    failure = verdict.failure
    assert failure is not None and failure.trace is not None and failure.file is not None
    assert load_failure(failure.file).trace == failure.trace
    assert TraceRun(binding, DEVICE, "forgets_history").all(failure.trace) is not None
    assert len(failure.trace.steps) <= 130
    report = explain(verdict)
    assert f"step {len(failure.trace.steps)} of {len(failure.trace.steps)}" in report
    assert len(report.splitlines()) < 80


def test_the_report_draws_equal_steps_once_and_only_the_last_steps() -> None:
    alike = Trace((*[step((0, 1))] * 128, leveled([step((0, 1)), step((1, 1))]).steps[1]))
    drawn = draw_steps(alike)
    assert "steps 1 to 128 of 129, all alike: 1 token of 1 request" in drawn
    assert "step 129 of 129" in drawn and "not drawn" not in drawn
    drawn = draw_steps(long_trace(100))
    assert drawn.splitlines()[0].strip() == (
        "steps 1 to 92 of 100, not drawn: 2 to 4 tokens of up to 2 requests"
    )
    assert "step 93 of 100" in drawn and "step 92 of 100" not in drawn
    assert svg_steps(long_trace(100)).count('<text x="12"') >= 9


def test_a_trace_that_goes_on_is_told_by_its_new_step() -> None:
    steps = long_trace(3).steps
    known = Trace(steps[:2])
    assert _as_told_after(known, known.then(steps[2])) == NextStep(steps[2])
    assert known.then(steps[2]) == Trace(steps)
    for other in (Trace(steps), Trace((steps[1],)), steps[0]):
        assert _as_told_after(None, other) is other
    assert not isinstance(_as_told_after(Trace(steps[1:]), Trace(steps)), NextStep)


def test_a_step_of_another_engine_does_not_continue_a_trace() -> None:
    with pytest.raises(ValueError, match=r"batch.block_size = 4, must be 16"):
        Trace((step((0, 1)),)).then(step((0, 1), block_size=4))


def test_dropped_tensors_are_forgotten_and_the_first_ones_never() -> None:
    allocated = FencedAllocations(0xA5)
    with allocated:
        first = torch.zeros(4).detach()
    allocated.free()
    with allocated:
        kept = torch.empty(8)
        torch.empty(16)
    allocated.free()
    assert [region.stop - region.start for region in allocated.regions()] == [16, 32]
    first.as_strided((5,), (1,))[4] = 1
    assert list(allocated.damage()) == ["allocated tensor 0 was written outside its elements"]
    kept.as_strided((9,), (1,))[8] = 1
    assert len(list(allocated.damage())) == 2


def test_lengths_are_halved_where_nothing_is_selected() -> None:
    """The neutral selection stays: another one is not promised by a function that selects nothing."""
    neutral = step((1, 1)).options.selection.topk

    def fails(trace: Trace) -> bool:
        lens = [r.context_len for one in trace.steps for r in one.batch.requests]
        return len(lens) == 2 and min(lens) >= 32 and trace.steps[0].options.selection.topk == neutral

    reduced = reduce_trace(leveled([step((2048, 0)), step((2048, 0))]), fails)
    assert [r.context_len for one in reduced.steps for r in one.batch.requests] == [32, 32]
