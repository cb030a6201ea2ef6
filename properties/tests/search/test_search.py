"""The one loop: what it counts, what it keeps, what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae import gpu_impl
from cumae.fixtures.bugs import BUGS
from cumae.oracle import Batch, Case, Layout, Request, to_json
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import load_case, load_failure
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search import budget
from cumae.properties.search.budget import Budget
from cumae.properties.search.exits import Stop
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import wrong_on_purpose as wrong

DEVICE = prepare("auto")


def test_a_verdict_counts_cases_and_comparisons() -> None:
    binding = binding_of(wrong.padding_left_alone, "position_ids")
    verdict = search(binding, DEVICE, Budget(examples=25), checks=["agrees"])
    assert (verdict.cases - verdict.toured, verdict.status) == (25, "agrees")
    assert verdict.comparisons == verdict.cases
    assert verdict.shapes["length 0"] > 0
    assert verdict.shapes.keys() <= verdict.shows


def test_a_run_that_compares_nothing_is_no_success() -> None:
    case = Case(Batch((), 1))
    binding = binding_of(wrong.padding_left_alone, "position_ids", domain=Domain(min_requests=1))
    verdict = search(binding, DEVICE, Budget(examples=0), first=[case])
    assert verdict.status == "nothing compared"
    assert not verdict.ok


def test_a_case_outside_the_domain_is_counted_as_not_promised() -> None:
    binding = binding_of(wrong.padding_left_alone, "position_ids", domain=Domain(min_requests=1))
    verdict = search(binding, DEVICE, Budget(examples=3), first=[Case(Batch((), 1))], checks=["agrees"])
    assert (verdict.not_promised, verdict.cases - verdict.toured) == (1, 3)


def test_a_kernel_that_raises_is_a_failure_with_its_case() -> None:
    def raises(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        if context_lens.numel() > 1:
            raise RuntimeError("no such launch")

    verdict = search(
        binding_of(raises, "position_ids"), DEVICE, Budget(examples=50), checks=["is_deterministic"]
    )
    assert verdict.failure is not None
    told = r"the kernel raised RuntimeError: no such launch \(test_search\.py:\d+ in raises\)"
    assert re.fullmatch(told, verdict.failure.finding.message)
    assert verdict.failure.case.num_requests_padded == 2


def test_a_function_that_would_end_the_search_is_a_failure() -> None:
    def ends(position_ids: torch.Tensor) -> None:
        raise Stop

    verdict = search(binding_of(ends, "position_ids"), DEVICE, Budget(examples=5), checks=["agrees"])
    assert verdict.status == "disagrees"


def test_what_the_function_cannot_be_shown_is_told() -> None:
    def no_ranks(
        token_to_request: torch.Tensor,
        selected_positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        selected_slots: torch.Tensor,
    ) -> None:
        arguments = (token_to_request, selected_positions, block_table, block_size, 1, 0, 1, selected_slots)
        gpu_impl.write_topk_to_slots(*arguments, None, None)

    verdict = search(binding_of(no_ranks, "topk_to_slots"), DEVICE, Budget(examples=2), checks=["agrees"])
    assert verdict.ok and verdict.hidden == ("interleave", "prefill_workspace", "rank", "world")


def test_a_check_that_finds_nothing_to_look_at_compares_nothing() -> None:
    without_ids = binding_of(gpu_impl.write_position_ids, "position_ids")
    assert "survives_large_ids" not in checks_for(without_ids, DEVICE)
    verdict = search(without_ids, DEVICE, Budget(examples=3), checks=["survives_large_ids"])
    assert (verdict.status, verdict.cases - verdict.toured) == ("nothing compared", 3)
    assert verdict.comparisons == 0
    dense = binding_of(gpu_impl.write_cache, "cache_write", domain=Domain(strided=False))
    assert "survives_large_ids" in checks_for(dense, DEVICE)


def test_a_flaky_kernel_is_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SHRINK_SECONDS", 1.0)
    calls: list[int] = []

    def flaky(token_to_request: Any, cu_seqlens_q: Any, context_lens: Any, position_ids: Any) -> None:
        calls.append(position_ids.numel())
        right = wrong.right_positions(token_to_request, cu_seqlens_q, context_lens)
        first_after_twenty = len(calls) > 20 and not any(calls[20:-1])
        position_ids.copy_(right + int(first_after_twenty))

    verdict = search(
        binding_of(flaky, "position_ids"), DEVICE, Budget(examples=60, volume=0), checks=["agrees"]
    )
    assert verdict.failure is not None


@pytest.fixture(scope="module")
def failing_verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Return the verdict on a known bug, whose failure is saved."""
    bug = next(bug for bug in BUGS if bug.report == "FastDeploy#7598")
    binding = binding_of(load_function(bug.target), bug.operation, bug.dialect)
    return search(binding, DEVICE, Budget(examples=100), save_to=tmp_path_factory.mktemp("failing"))


def test_a_report_says_what_where_why_and_how_to_see_it_again(failing_verdict: Verdict) -> None:
    verdict = failing_verdict
    report = explain(verdict)
    assert verdict.failure is not None
    for part in (
        "cumae.fixtures.bugs.causal_windows:key_offsets_as_rows disagrees with causal_windows: agrees",
        "`ke[0]` differs from the oracle",
        "expected 2",
        "actual   1",
        "token 0: request 0, position 1, block 1",
        "1 of 1 element differs",
        "rule: one past the last key row complete at the token's position",
        "1 request, found after",
        "|0:░|1:✗|",
        "called with: cu_seqlens_q=[0, 1], cu_seqlens_k=[0, 2], seq_lens_encoder=[[1]]",
        f"reproduce: cumae replay {verdict.failure.file}",
    ):
        assert part in report


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        ({"version": 2}, r"version = 2, must be 1"),
        ({"operation": 3}, r"operation = 3, must be a string"),
        ({"colour": "red"}, r"colour = 'red', must be absent"),
        ({"case": []}, r"case = \[\], must be an object"),
        ({"finding": None}, r"finding = None, must be an object"),
        (
            {"finding": {"check": "agrees", "message": "", "rule": 3}},
            r"finding.rule = 3, must be of type str",
        ),
        ({"finding": {"check": "agrees", "message": ""}}, r"finding.rule = None, must be present"),
    ],
)
def test_a_malformed_failure_file_is_refused(
    failing_verdict: Verdict, tmp_path: Path, edit: dict[str, Any], rule: str
) -> None:
    assert failing_verdict.failure is not None and failing_verdict.failure.file is not None
    content = json.loads(failing_verdict.failure.file.read_text()) | edit
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rule):
        load_failure(file)


def test_an_unknown_check_and_an_empty_budget_are_refused() -> None:
    binding = binding_of(wrong.one_too_far, "position_ids")
    with pytest.raises(ValueError, match=r"check = 'agree' \(did you mean 'agrees'\?\), must be"):
        search(binding, DEVICE, Budget(examples=1), checks=["agree"])
    with pytest.raises(ValueError, match=r"budget = nothing, must give examples or seconds"):
        search(binding, DEVICE, Budget())


def test_an_unknown_argument_lists_those_that_exist() -> None:
    def asks_too_much(position_ids: Any, kv_scales: Any) -> None: ...

    with pytest.raises(
        ValueError, match=r"parameter = 'kv_scales'.*, must be an output .*position_ids.* or an input of"
    ):
        binding_of(asks_too_much, "position_ids")


def test_returned_outputs_of_the_wrong_shape_are_reported() -> None:
    def returns_too_few(token_to_request: torch.Tensor) -> torch.Tensor:
        return token_to_request[:0].long()

    verdict = search(binding_of(returns_too_few, "position_ids"), DEVICE, Budget(examples=50))
    assert verdict.failure is not None
    assert "has shape [0], must have [1]" in verdict.failure.finding.message


@pytest.mark.parametrize(
    ("operation", "dtypes"),
    [
        ("position_ids", (torch.int64,)),
        ("chunked_context", (torch.int32,) * 5),
        ("compact_topk_slots", (torch.int32, torch.int32)),
        ("grouped_topk", (torch.int32, torch.float32)),
    ],
)
def test_answers_of_another_length_are_told_by_three_checks_and_end_no_other(
    operation: str, dtypes: tuple[torch.dtype, ...]
) -> None:
    def returns_one_too_many(context_lens: torch.Tensor, num_tokens_padded: int) -> tuple[torch.Tensor, ...]:
        shape = (num_tokens_padded + 1,)
        return tuple(torch.empty(shape, dtype=d, device=context_lens.device).fill_(0) for d in dtypes)

    binding = binding_of(returns_one_too_many, operation)
    telling = []
    for check in checks_for(binding):
        failure = search(binding, DEVICE, Budget(examples=20), checks=(check,), reduce=False).failure
        if failure is not None:
            assert "has shape [" in failure.finding.message
            telling.append(check)
    assert telling == ["agrees", "writes_everything", "forgets_history"]


def test_a_neutral_layout_is_what_a_failure_shrinks_to(failing_verdict: Verdict) -> None:
    assert failing_verdict.failure is not None
    assert failing_verdict.failure.case.layout == Layout()
    assert [(r.context_len, r.query_len) for r in failing_verdict.failure.case.batch.requests] == [(1, 1)]
    assert isinstance(failing_verdict.failure.case.batch.requests[0], Request)


def test_a_plain_case_needs_a_target_and_an_operation(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(to_json(Case(Batch((), 1)))))
    with pytest.raises(ValueError, match=r"case.json.operation = None, must be given"):
        load_case(file, "a:b", None, None)
    saved = load_case(file, "a:b", "position_ids", None)
    assert (saved.case, saved.dialect, saved.finding.check) == (Case(Batch((), 1)), "cumae", "")
