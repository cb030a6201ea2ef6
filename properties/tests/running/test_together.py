"""Calls on several cases in one memory show what each call alone shows."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.bench import COMPLEMENT, POISON, Bench
from cumae.properties.running.device import Device, prepare
from cumae.properties.running.integrity import tampering
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.progress import Progress
from cumae.properties.running.together import observe_together
from cumae.properties.running.trial import Trial
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.loop import search
from cumae.properties.tests.helpers.python_process import run_python

DEVICE = prepare("auto")
OUT = "position_ids"
CHECKS = ["agrees", "writes_everything", "stays_in_bounds", "ignores_garbage", "is_deterministic"]
CHECKS += ["accepts_index_types", "keeps_facts"]
TIMES: list[int] = []


def positions(
    context_lens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    row = torch.arange(len(token_to_request), device=position_ids.device)
    owner = token_to_request.long()
    known = owner.clamp(min=0)
    if len(context_lens):
        position = context_lens.long()[known] + row - cu_seqlens_q.long()[known]
        position_ids.copy_(torch.where(owner >= 0, position, 0))
    else:
        position_ids.zero_()


def wrong_from_nine_on(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    positions(position_ids=position_ids, **inputs)
    position_ids[8:] += 1


def wrong_before_its_start(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    positions(position_ids=position_ids, **inputs)
    if len(position_ids):
        position_ids.as_strided((1,), (1,), position_ids.storage_offset() - 1).zero_()


def wrong_for_int64(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    positions(position_ids=position_ids, **inputs)
    if inputs["context_lens"].dtype == torch.int64:
        position_ids[4:] += 1


def wrong_every_second_time(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    TIMES.append(0)
    positions(position_ids=position_ids, **inputs)
    if len(TIMES) % 2 == 0:
        position_ids[4:] += 1


def raises_at_nine(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    if len(position_ids) > 8:
        raise RuntimeError("too long")
    positions(position_ids=position_ids, **inputs)


def reaches_the_next_call(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
    positions(position_ids=position_ids, **inputs)
    behind = position_ids.storage_offset() + 2**15
    if len(position_ids) and (behind + 1) * position_ids.element_size() <= len(
        position_ids.untyped_storage()
    ):
        position_ids.as_strided((1,), (1,), behind).add_(1)


def bound(function: Any) -> Binding:
    def named(
        context_lens: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        function(
            context_lens=context_lens,
            cu_seqlens_q=cu_seqlens_q,
            token_to_request=token_to_request,
            position_ids=position_ids,
        )

    return binding_of(named, "position_ids")


def drawn(binding: Binding, count: int) -> list[Case]:
    cases = seeded_cases(3, binding.domain, binding.features)
    return list(islice((case for case in cases if binding.why_not(case) is None), count))


def calls_of(binding: Binding, cases: list[Case]) -> list[tuple[Bench, int]]:
    return [(Bench(binding, case, DEVICE), poison) for case in cases for poison in (POISON, COMPLEMENT)]


@pytest.mark.parametrize("function", [positions, wrong_from_nine_on, wrong_before_its_start])
def test_calls_together_show_what_each_shows_alone(function: Any) -> None:
    binding = bound(function)
    calls = calls_of(binding, drawn(binding, 40))
    begun: list[int] = []
    found = observe_together(calls, begun.append)
    assert begun == list(range(80)) == list(found)
    for number, (bench, poison) in enumerate(calls):
        seen, alone = found[number], Bench(binding, bench.case, DEVICE).observe(poison)
        assert isinstance(seen, Observation)
        assert seen.damage == alone.damage
        assert (len(seen.damage) > 0) == (function is wrong_before_its_start and len(seen.outputs[OUT]) > 0)
        np.testing.assert_array_equal(seen.outputs[OUT], alone.outputs[OUT])
        np.testing.assert_array_equal(seen.before[OUT], alone.before[OUT])


class Reporting(Progress):
    """A device that is in its third call for long and then is lost, or not."""

    is_lost = False

    def __init__(self, device: Device) -> None:
        super().__init__("cpu")
        self.is_exact = True

    @property
    def num_over(self) -> int:
        return 2

    def wait(self, runs: Callable[[int], None]) -> None:
        runs(self.num_over)
        if self.is_lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_call_that_runs_long_is_told_and_one_that_loses_the_device_named(
    is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tampering()  # sees the suite as it is, or takes what comes next for it
    monkeypatch.setattr("cumae.properties.running.together.Progress", Reporting)
    monkeypatch.setattr(Reporting, "is_lost", is_lost)
    binding, begun = bound(positions), list[int]()
    calls = [(Bench(binding, case, "cpu"), POISON) for case in drawn(binding, 9)]
    found = observe_together(calls, begun.append)
    assert begun == [*range(9), 2]
    assert list(found) == ([2] if is_lost else [*range(9)])
    assert ("illegal memory access" in str(found[2])) == is_lost


@pytest.mark.skipif(DEVICE != "cuda", reason="only a GPU loses its context")
def test_a_kernel_that_loses_the_context_is_named_by_its_call(tmp_path: Path) -> None:
    """In a process of its own, which ends as others do."""
    told = run_python("-m", "cumae.properties.tests.functions.losing_together", cwd=tmp_path, fresh=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["3", "of", "9"]


def test_calls_lie_in_several_memories_if_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumae.properties.running.together.MOST_BYTES", 2**18)
    binding = bound(positions)
    calls = calls_of(binding, drawn(binding, 20))
    found = observe_together(calls)
    assert len(found) == 40
    for number, (bench, poison) in enumerate(calls):
        seen, alone = found[number], Bench(binding, bench.case, DEVICE).observe(poison)
        assert isinstance(seen, Observation)
        np.testing.assert_array_equal(seen.outputs[OUT], alone.outputs[OUT])


def test_no_call_is_made_after_one_that_raises() -> None:
    binding = bound(raises_at_nine)
    cases = drawn(binding, 40)
    first = next(i for i, case in enumerate(cases) if case.num_tokens_padded > 8)
    found = observe_together([(Bench(binding, case, DEVICE), POISON) for case in cases])
    assert list(found)[-1] == max(found) == first
    assert len(found) == first + 1
    assert isinstance(found[first], KernelRaised)
    assert all(isinstance(found[i], Observation) for i in range(first))


def test_no_call_is_made_once_calls_have_made_many_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their tensors live until all calls are read back: a function with a large workspace would run out."""
    monkeypatch.setattr("cumae.properties.running.together.MOST_ALLOCATED", 3 * 2**20)

    def with_workspace(position_ids: torch.Tensor, **inputs: torch.Tensor) -> None:
        torch.empty(2**20, dtype=torch.uint8, device=position_ids.device)
        positions(position_ids=position_ids, **inputs)

    binding = bound(with_workspace)
    found = observe_together([(Bench(binding, case, DEVICE), POISON) for case in drawn(binding, 20)])
    assert list(found) == [0, 1, 2]


def searched(function: Any, monkeypatch: pytest.MonkeyPatch, *, together: bool, volume: int = 100) -> Verdict:
    monkeypatch.setattr(Examiner, "calls_together", together)
    monkeypatch.setattr(Trial, "calls_together", together)
    return search(bound(function), DEVICE, Budget(examples=200, volume=volume), checks=CHECKS)


@pytest.mark.parametrize(
    "function", [wrong_from_nine_on, wrong_before_its_start, wrong_for_int64, raises_at_nine]
)
def test_a_search_finds_the_same(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = searched(function, monkeypatch, together=True).failure
    alone = searched(function, monkeypatch, together=False).failure
    assert together is not None
    assert alone is not None
    assert together.finding.check == alone.finding.check
    assert together.finding.message == alone.finding.message
    assert together.case == alone.case


@pytest.mark.parametrize("volume", [0, 100])
def test_a_search_counts_the_same(volume: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together = searched(positions, monkeypatch, together=True, volume=volume)
    alone = searched(positions, monkeypatch, together=False, volume=volume)
    assert together.status == alone.status == "agrees"
    assert together.cases == alone.cases
    assert together.comparisons == alone.comparisons


def test_what_does_not_repeat_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    TIMES.clear()
    assert searched(wrong_every_second_time, monkeypatch, together=True).failure is not None


def test_a_call_that_reaches_the_next_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(reaches_the_next_call, monkeypatch, together=True).failure
    assert found is not None
    assert found.finding.message.endswith("; it agrees if it is called on no other case before")
