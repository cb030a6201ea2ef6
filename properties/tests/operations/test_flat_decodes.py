"""Steps flattened to decodes of one token: worked by hand, and functions that are right or wrong."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.cuts import flat_decodes as right
from cumae.gpu_impl import write_flat_decodes
from cumae.oracle import flat_decodes
from cumae.properties.cases.domain import Domain
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False)


class TestFlatDecodes:
    def test_a_token_sees_one_key_more_than_the_token_before_it(self) -> None:
        lens = flat_decodes([0, 4], [7], 1, 4, 100).key_lens
        assert lens == [8, 9, 10, 11]

    def test_a_chunk_says_the_same_as_its_tokens_one_by_one(self) -> None:
        whole = flat_decodes([0, 3], [2], 1, 3, 4)
        parts = [flat_decodes([0, 1], [2 + i], 1, 1, 4) for i in range(3)]
        assert whole.key_lens == [part.key_lens[0] for part in parts]
        assert whole.selected_indptr[-1] == sum(part.selected_indptr[-1] for part in parts)

    def test_the_sum_ends_with_all_selected_keys(self) -> None:
        found = flat_decodes([0, 2, 2, 3], [3, 9, 0], 3, 5, 4)
        assert found.selected_indptr == [0, 4, 8, 9, 9, 9]

    def test_a_padded_request_sees_no_key_whatever_its_rows(self) -> None:
        assert flat_decodes([0, 1, 4], [2, 5], 1, 4, 8).key_lens == [3, 0, 0, 0]

    def test_a_selection_of_no_key_is_refused(self) -> None:
        with pytest.raises(ValueError, match="topk = 0, must be >= 1"):
            flat_decodes([0, 1], [0], 1, 1, 0)


def without_topk(
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    num_requests: int,
    topk: int,
    key_lens: torch.Tensor,
    selected_lens: torch.Tensor,
    selected_indptr: torch.Tensor,
) -> None:
    lens = torch.empty_like(selected_lens)
    right(cu_seqlens_q, context_lens, num_requests, topk, key_lens, selected_lens, selected_indptr)
    right(cu_seqlens_q, context_lens, num_requests, 2**31 - 1, key_lens, lens, selected_indptr)


def padding_left_alone(
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    num_requests: int,
    topk: int,
    key_lens: torch.Tensor,
    selected_lens: torch.Tensor,
    selected_indptr: torch.Tensor,
) -> None:
    lens = torch.empty_like(key_lens)
    right(cu_seqlens_q, context_lens, num_requests, topk, lens, selected_lens, selected_indptr)
    count = int(cu_seqlens_q[num_requests])
    key_lens[:count] = lens[:count]


@pytest.mark.parametrize(
    ("wrong", "check", "axis"),
    [(without_topk, "agrees", "token_start"), (padding_left_alone, "writes_everything", "token")],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str, axis: str) -> None:
    verdict = cumae.check(wrong, "flat_decodes", domain=TORCH, examples=40, save_to=None)
    assert verdict.failure is not None
    assert (verdict.failure.finding.check, verdict.failure.finding.axis) == (check, axis)


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""

    def filled(size: int) -> torch.Tensor:
        return torch.full((size,), 77, dtype=torch.int32, device=DEVICE)

    return {
        "cu_seqlens_q": torch.tensor([0, 2, 2, 3], dtype=torch.int32, device=DEVICE),
        "context_lens": torch.tensor([3, 0, 1], device=DEVICE),
        "num_requests": 3,
        "topk": 4,
        "key_lens": filled(4),
        "selected_lens": filled(4),
        "selected_indptr": filled(5),
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("topk", 0, "topk = 0"),
        ("cu_seqlens_q", torch.zeros(4), "cu_seqlens_q."),
        ("context_lens", torch.zeros(3), "context_lens.dtype = torch.float32"),
        ("key_lens", torch.ones(4, dtype=torch.int64), "key_lens.dtype = torch.int64"),
        ("selected_lens", torch.ones(3, dtype=torch.int32), "selected_lens.shape = (3,)"),
        ("selected_indptr", torch.ones(4, dtype=torch.int32), "selected_indptr.shape = (4,)"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_flat_decodes(**good)
    assert good["selected_indptr"].tolist() == [0, 4, 8, 10, 10]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_flat_decodes(**bad)
    outputs = ("key_lens", "selected_lens", "selected_indptr")
    assert all((bad[name] == 77).all() for name in outputs if name != field)
