"""A search keeps its time, and what it had found when it ends."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae import gpu_impl
from cumae.oracle import Batch, Case, Request
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.keeper import Keeper
from cumae.properties.search.loop import search
from cumae.properties.search.pace import Pace
from cumae.properties.tests.functions import wrong_on_purpose as wrong

DEVICE = prepare("auto")


def test_no_check_of_a_drawn_case_begins_when_the_time_is_up() -> None:
    def slow(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        time.sleep(0.02)
        gpu_impl.write_position_ids(token_to_request, cu_seqlens_q, context_lens, position_ids)

    verdict = search(binding_of(slow, "position_ids"), DEVICE, Budget(seconds=0.01))
    assert verdict.ok and len(verdict.checks) > 5
    assert (verdict.cases, verdict.comparisons) == (1, 1)


def test_a_broken_fact_is_not_lost_when_the_time_is_up() -> None:
    case = Case(Batch((Request(1, 2, (1,), "prefill"),), 4))
    binding = binding_of(gpu_impl.write_position_ids, "position_ids")
    verdict = Verdict(binding.name, "position_ids", "cumae", ("agrees", "keeps_facts"), comparisons=1)
    pace = Pace(verdict, Budget(seconds=1e-9))
    keeper = Keeper(binding, DEVICE, verdict, pace)
    state = Examiner(binding, DEVICE, verdict.checks, keeper, None, None, verdict, pace)
    broken = Finding("keeps_facts", "a fact is broken", "")
    assert state.told_by_values(case, broken) == (case, broken)


def test_an_interrupted_search_keeps_what_it_had_found(tmp_path: Path) -> None:
    calls = 0

    def interrupted(token_to_request: Any, cu_seqlens_q: Any, context_lens: Any, position_ids: Any) -> None:
        nonlocal calls
        calls += 1
        if list(tmp_path.glob("*.json")):
            raise KeyboardInterrupt
        wrong.one_too_far(token_to_request, cu_seqlens_q, context_lens, position_ids)

    with pytest.raises(KeyboardInterrupt):
        binding = binding_of(interrupted, "position_ids")
        search(binding, DEVICE, Budget(examples=50), checks=["agrees"], save_to=tmp_path)
    (file,) = tmp_path.glob("*.json")
    assert load_failure(file).finding.check == "agrees"


def test_the_time_is_kept_within_a_case_and_first_cases_for_which_none_is_left_are_told() -> None:
    def slow(token_to_request: Any, cu_seqlens_q: Any, context_lens: Any, position_ids: Any) -> None:
        time.sleep(0.1)
        wrong.padding_left_alone(token_to_request, cu_seqlens_q, context_lens, position_ids)

    binding = binding_of(slow, "position_ids")
    verdict = search(binding, DEVICE, Budget(seconds=0.5, volume=0), checks=["agrees"])
    assert verdict.status == "agrees"
    assert verdict.seconds >= 0.5
    assert 1 <= verdict.cases <= 6  # a case takes 0.1 s at least
    first = fixture_cases(binding)[:3]
    verdict = search(binding, DEVICE, Budget(seconds=1e-6), checks=["agrees"], first=first)
    assert (verdict.cases, verdict.not_tried) == (1, 2)
    assert explain(verdict).endswith("; 2 cases of the fixtures and saved failures not tried")
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["agrees"], first=first)
    assert (verdict.cases, verdict.not_tried) == (3, 0)


def test_what_is_about_to_run_is_told_first() -> None:
    told: list[tuple[str, Case]] = []
    binding = binding_of(wrong.padding_left_alone, "position_ids")
    first = fixture_cases(binding)[:2]
    checks = ["agrees", "is_deterministic"]
    search(
        binding,
        DEVICE,
        Budget(examples=0),
        checks=checks,
        first=first,
        before=lambda *now: told.append(now),
    )
    assert told == [(name, case) for case in first for name in checks]
