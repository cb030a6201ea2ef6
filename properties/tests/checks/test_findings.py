"""Reports of failures: types, causes, numbers added to ids, cases left out."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cumae
from cumae import gpu_impl
from cumae.fixtures.correct import cumae as correct
from cumae.oracle import Batch, Case, Layout, Request, Trace
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.dialects.tensor_values import read_table
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain, finding_lines
from cumae.properties.results.failure_file import failure_file, load_failure, save_failure
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.running import memory
from cumae.properties.running.device import prepare
from cumae.properties.search import budget
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import wrong_on_purpose as wrong

DEVICE = prepare("auto")


def positions_as(dtype: torch.dtype) -> Callable[..., Any]:
    def launch(
        query_start_loc: torch.Tensor, num_computed_tokens: torch.Tensor, num_tokens_padded: int
    ) -> torch.Tensor:
        out = torch.zeros(num_tokens_padded, dtype=dtype, device=query_start_loc.device)
        starts = query_start_loc.tolist()
        for b, context_len in enumerate(num_computed_tokens.tolist()[: len(starts) - 1]):
            out[starts[b] : starts[b + 1]] = torch.arange(
                context_len, context_len + starts[b + 1] - starts[b]
            )
        return out

    return launch


def verdict_on(function: Callable[..., Any], operation: cumae.OperationName, **more: Any) -> Verdict:
    domain = cumae.Domain(captured=False, min_requests=1)
    return cumae.check(function, operation, dialect="vllm", domain=domain, examples=30, save_to=None, **more)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_a_returned_tensor_of_another_type_is_wrong_whatever_its_values(dtype: torch.dtype) -> None:
    assert verdict_on(positions_as(torch.int64), "position_ids", checks=("agrees",)).ok
    failure = verdict_on(positions_as(dtype), "position_ids", checks=("agrees",)).failure
    assert failure is not None
    name = str(dtype).removeprefix("torch.")
    assert failure.finding.message == f"`positions` has dtype {name}, must have int64"


def test_a_verdict_is_true_where_it_agrees_and_shows_itself_in_one_line() -> None:
    good = verdict_on(positions_as(torch.int64), "position_ids", checks=("agrees",))
    bad = verdict_on(positions_as(torch.int32), "position_ids", checks=("agrees",))
    assert good and not bad
    assert repr(good).startswith("<Verdict agrees: ") and "\n" not in repr(good)
    assert repr(bad).endswith("; agrees: `positions` has dtype int32, must have int64>")


def slots(wraps: bool, shift: int) -> Callable[..., None]:
    def launch(
        query_start_loc: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        num_tokens: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        slot_mapping.fill_(-1)
        starts = query_start_loc.tolist()
        for b in range(len(starts) - 1):
            for t in range(starts[b], starts[b + 1]):
                position = int(positions[t])
                slot = int(block_table[b, position // block_size]) * block_size + position % block_size
                slot_mapping[t] = (slot + 2**31) % 2**32 - 2**31 if wraps else slot + shift

    return launch


def test_a_product_that_wraps_is_told_with_what_was_added_to_the_ids() -> None:
    failure = verdict_on(slots(wraps=True, shift=0), "slot_mapping").failure
    assert failure is not None and failure.finding.check == "survives_large_ids"
    assert failure.finding.raised_by > 2**20
    assert f"when {failure.finding.raised_by} is added to every block id" in failure.finding.message
    place = "\n".join(finding_lines(failure.case, failure.finding))
    block = failure.case.batch.requests[0].block_ids[0] + failure.finding.raised_by
    assert f"block {block}" in place


def test_a_plain_fault_is_not_blamed_on_large_ids() -> None:
    verdict = verdict_on(slots(wraps=False, shift=1), "slot_mapping", checks=("survives_large_ids",))
    assert verdict.ok
    failure = verdict_on(slots(wraps=False, shift=1), "slot_mapping").failure
    assert failure is not None and failure.finding.check == "agrees"


def test_what_a_gpu_has_no_room_for_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int, device: str) -> torch.Tensor:
        raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes. GPU 0 has none.")

    monkeypatch.setattr(memory, "_large", full)
    case = Case(Batch((Request(0, 3, (1,), "prefill"),), 4))
    trial = Trial(binding_of(gpu_impl.write_cache, "cache_write"), case, DEVICE)
    with pytest.warns(
        UserWarning, match=r"does not fit on the GPU: CUDA out of memory\. Tried to allocate \d+ bytes$"
    ):
        assert CHECKS["survives_large_ids"](trial) is None
    assert trial.saw_nothing


def test_a_report_says_when_the_reducer_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(Batch(tuple(Request(2, 3, (9 * b, 9 * b + 1), "prefill") for b in range(4)), 4), Layout())
    binding = binding_of(wrong.one_too_far, "position_ids")
    found = search(binding, DEVICE, Budget(examples=0), checks=["agrees"], first=[case])
    assert found.failure is not None and found.failure.stopped == ""
    monkeypatch.setattr(budget, "SHRINK_SECONDS", 0.0)
    found = search(binding, DEVICE, Budget(examples=0), checks=["agrees"], first=[case])
    assert found.failure is not None and found.failure.case == case
    assert "there may be smaller ones: 0 s were up" in explain(found)


@pytest.mark.parametrize("when", ["in this run", "before it"])
def test_a_smaller_failure_that_another_shard_saved_stays(when: str, tmp_path: Path) -> None:
    binding = binding_of(wrong.one_too_far, "position_ids")
    large = Case(Batch(tuple(Request(2, 3, (9 * b, 9 * b + 1), "prefill") for b in range(4)), 4), Layout())
    small = Case(Batch((Request(0, 1, (5,)),), 1))
    verdict = Verdict(binding.name, "position_ids", "cumae", ("agrees",))
    theirs = Failure(Finding("agrees", "theirs", "a rule"), small, 1)

    def meanwhile(check: str, tried: Case | Trace) -> None:
        if when == "in this run":
            save_failure(tmp_path, verdict, theirs)

    os.utime(save_failure(tmp_path, verdict, theirs), (0, 0))
    budget, checks = Budget(examples=0), ["agrees"]
    search(
        binding,
        DEVICE,
        budget,
        checks=checks,
        first=[large],
        save_to=tmp_path,
        before=meanwhile,
        reduce=False,
    )
    kept = load_failure(failure_file(tmp_path, verdict, "agrees")).case
    assert kept == (small if when == "in this run" else large)


def test_what_cannot_be_run_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="min_requests = 1000000, must be <= "):
        cumae.Domain(min_requests=10**6)
    with pytest.raises(ValueError, match="examples = 0, must be >= 1"):
        cumae.check(wrong.one_too_far, "position_ids", examples=0)
    with pytest.raises(ValueError, match="checks = 'agrees', must be a list of names"):
        cumae.check(wrong.one_too_far, "position_ids", checks="agrees")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"block_table\[0\] = 3, must be a list of integers: a table has two"
    ):
        read_table("block_table", [3, 4], 2)


def test_a_window_beyond_the_keys_is_told_as_that() -> None:
    case = Case(Batch((Request(0, 4, (3,)),), 4))
    finding = Finding(
        "agrees", "`ke[3]`", "", "ke", index=3, expected="4", actual="5", axis="window_stop", wrong=(3,)
    )
    verdict = Verdict("f", "causal_windows", "cumae", ("agrees",), 1, 1, failure=Failure(finding, case, 1))
    assert "[0, 5)  not within the 4 keys" in explain(verdict)
    right = replace(verdict, failure=Failure(replace(finding, actual="3"), case, 1))
    assert "not within" not in explain(right)


def test_an_answer_that_is_wrong_by_chance_is_told_as_such() -> None:
    draw = random.Random(0)

    def wrong_by_chance(context_lens: torch.Tensor, query_lens: torch.Tensor, num_tokens_padded: int) -> Any:
        found = correct.position_ids(context_lens, query_lens, int(query_lens.sum()), num_tokens_padded)
        return found + (draw.random() < 0.1)

    domain = cumae.Domain(captured=False).having(index_dtype=("int32",))
    verdict = cumae.check(wrong_by_chance, "position_ids", save_to=None, domain=domain)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "is_deterministic"
    assert "in another call, which was the same" in verdict.failure.finding.message


def test_steps_do_not_tell_what_a_check_left_out_would_tell() -> None:
    def changes_its_input(
        query_lens: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
    ) -> None:
        rows = len(position_ids)
        tokens = int(query_lens.sum())
        position_ids.copy_(correct.position_ids(context_lens, query_lens, tokens, rows))
        context_lens.zero_()

    told = cumae.check(changes_its_input, "position_ids", save_to=None).failure
    assert told is not None and told.finding.check == "stays_in_bounds"
    domain = cumae.Domain(all_but=("stays_in_bounds", "never_synchronises"), captured=False)
    assert cumae.check(changes_its_input, "position_ids", domain=domain, save_to=None).ok
