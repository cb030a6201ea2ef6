"""Samples of draft tokens: worked by hand, functions that are wrong about them, refused arguments."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.drafts import draft_steps as right
from cumae.fixtures.edge_cases.definition import EMPTY, case, prefill
from cumae.gpu_impl import write_draft_steps
from cumae.oracle import Request, draft_steps
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.places import Seen
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False)
Tensor = torch.Tensor


class TestDraftSteps:
    def test_a_request_samples_once_for_each_draft_and_once_more(self) -> None:
        found = draft_steps([0, 5, 7], [2, 1], 2, 7)
        assert found.logits_indices == [2, 3, 4, 5, 6, 0, 0]
        assert found.target_logits_indices == [0, 1, 3, 0, 0, 0, 0]
        assert found.bonus_logits_indices == [2, 4]

    def test_every_sample_is_a_target_or_a_bonus(self) -> None:
        found = draft_steps([0, 4, 4, 5, 9], [3, 0, 0, 2], 4, 9)
        samples = [*found.target_logits_indices[:5], *(found.bonus_logits_indices[b] for b in (0, 2, 3))]
        assert sorted(samples) == list(range(8))

    def test_the_running_sum_of_drafts_has_no_leading_zero(self) -> None:
        assert draft_steps([0, 4, 5, 8], [3, 0, 2], 3, 8).cu_num_draft_tokens == [3, 3, 5]

    def test_drafts_of_padded_requests_are_not_read(self) -> None:
        found = draft_steps([0, 2, 2], [1, 999], 1, 2)
        assert (found.bonus_logits_indices, found.cu_num_draft_tokens) == ([1, 0], [1, 1])

    @pytest.mark.parametrize(("num_drafts", "rule"), [([2], "must be <= 1"), ([-1], "must be >= 0")])
    def test_a_request_has_more_new_tokens_than_drafts(self, num_drafts: list[int], rule: str) -> None:
        with pytest.raises(ValueError, match=re.escape(f"num_drafts[0] = {num_drafts[0]}, {rule}")):
            draft_steps([0, 2], num_drafts, 1, 2)

    def test_a_request_without_new_tokens_has_no_draft(self) -> None:
        with pytest.raises(ValueError, match=re.escape("num_drafts[0] = 1, must be <= 0")):
            draft_steps([0, 0], [1], 1, 0)


class TestNumbersOfDrafts:
    def test_all_numbers_occur_and_none_reaches_the_new_tokens(self) -> None:
        for query_len in range(2, 10):
            found = {num_drafts_of(Request(context_len, query_len), 64) for context_len in range(40)}
            assert found == set(range(query_len))

    def test_the_most_is_kept(self) -> None:
        assert {num_drafts_of(Request(context_len, 9), 3) for context_len in range(40)} == {0, 1, 2, 3}

    def test_one_token_is_no_draft(self) -> None:
        assert num_drafts_of(Request(5, 1), 8) == num_drafts_of(Request(5, 0), 8) == 0

    def test_a_seed_gives_requests_of_equal_lengths_other_drafts(self) -> None:
        for seed in range(1, 6):
            assert {num_drafts_of(Request(9, 4, (b,)), 3, seed) for b in range(40)} == {0, 1, 2, 3}
        found = [[num_drafts_of(Request(9, 4, (b,)), 3, seed) for b in range(40)] for seed in range(6)]
        assert len({*map(tuple, found)}) == 6


class TestPlaces:
    STEP = case(prefill(0, 4, 5), EMPTY, prefill(0, 4, 6), num_padding_tokens=1, max_drafts=3)

    @pytest.mark.parametrize(
        ("axis", "index", "says"),
        [
            ("logit", 7, "sample 7: token 7: request 2, position 3, block 6"),
            ("logit", 8, "sample 8: behind the last one of the step"),
            ("draft", 3, "verified draft 3: token 4: request 2, position 0, block 6"),
            ("draft", 6, "verified draft 6: behind the last one of the step"),
        ],
    )
    def test_a_report_names_the_row_of_a_sample(self, axis: str, index: int, says: str) -> None:
        placing = axis_named(axis).placing
        assert placing.text(self.STEP, index, Seen()) == says
        assert (placing.place(self.STEP, index, Seen()).request == 2) == ("request 2" in says)


def drafts_of_padding(num_drafts: Tensor, cu_num_draft_tokens: Tensor) -> None:
    cu_num_draft_tokens.copy_(num_drafts.clamp(0, 9).cumsum(0))


def samples_behind_the_last_one(
    cu_seqlens_q: Tensor,
    num_drafts: Tensor,
    num_requests: int,
    logits_indices: Tensor,
    target_logits_indices: Tensor,
    bonus_logits_indices: Tensor,
    cu_num_draft_tokens: Tensor,
) -> None:
    rows = torch.empty_like(logits_indices)
    outputs = (rows, target_logits_indices, bonus_logits_indices, cu_num_draft_tokens)
    right(cu_seqlens_q, num_drafts, num_requests, *outputs)
    num_samples = int(bonus_logits_indices.max()) + 1 if bonus_logits_indices.numel() else 0
    logits_indices[:num_samples] = rows[:num_samples]


def targets_by_row(
    cu_seqlens_q: Tensor,
    num_drafts: Tensor,
    num_requests: int,
    logits_indices: Tensor,
    target_logits_indices: Tensor,
    bonus_logits_indices: Tensor,
    cu_num_draft_tokens: Tensor,
) -> None:
    outputs = (logits_indices, target_logits_indices, bonus_logits_indices, cu_num_draft_tokens)
    right(cu_seqlens_q, num_drafts, num_requests, *outputs)
    num_targets = int(cu_num_draft_tokens[-1]) if cu_num_draft_tokens.numel() else 0
    target_logits_indices[:num_targets] = logits_indices[target_logits_indices[:num_targets].long()]


@pytest.mark.parametrize(
    ("wrong", "check", "axis"),
    [
        (drafts_of_padding, "ignores_garbage", "request"),
        (samples_behind_the_last_one, "writes_everything", "logit"),
        (targets_by_row, "agrees", "draft"),
    ],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str, axis: str) -> None:
    verdict = cumae.check(wrong, "draft_steps", domain=TORCH, examples=60, save_to=None)
    assert verdict.failure is not None
    assert (verdict.failure.finding.check, verdict.failure.finding.axis) == (check, axis)


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    lens = torch.tensor([3, 1, 0], dtype=torch.int32, device=DEVICE)
    outputs = {
        "logits_indices": torch.full((6,), 77, dtype=torch.int32, device=DEVICE),
        "target_logits_indices": torch.full((4,), 77, dtype=torch.int32, device=DEVICE),
        "bonus_logits_indices": torch.full_like(lens, 77),
        "cu_num_draft_tokens": torch.full_like(lens, 77),
    }
    sums = torch.tensor([0, 4, 6, 6], dtype=torch.int32, device=DEVICE)
    return {"cu_seqlens_q": sums, "num_drafts": lens, "num_requests": 2, **outputs}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("cu_seqlens_q", torch.ones(3, dtype=torch.int32), "cu_seqlens_q.shape = (3,)"),
        ("num_drafts", torch.ones(3), "num_drafts."),
        ("logits_indices", torch.ones(6, dtype=torch.int64), "logits_indices.dtype = torch.int64"),
        ("bonus_logits_indices", torch.ones(2, dtype=torch.int32), "bonus_logits_indices.shape = (2,)"),
        ("cu_num_draft_tokens", torch.ones(4, dtype=torch.int32), "cu_num_draft_tokens.shape = (4,)"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_draft_steps(**good)
    assert good["logits_indices"].tolist() == [0, 1, 2, 3, 4, 5]
    assert good["target_logits_indices"].tolist() == [0, 1, 2, 4]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_draft_steps(**bad)
    outputs = ("logits_indices", "target_logits_indices", "bonus_logits_indices", "cu_num_draft_tokens")
    assert all((bad[name] == 77).all() for name in outputs if name != field)
