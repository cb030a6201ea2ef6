"""Tokens on a context-parallel rank: worked by hand, and functions that are right or wrong about them."""

from collections.abc import Callable

import pytest
import torch

import cumae
from cumae.oracle import local_lens
from cumae.properties.cases.domain import Domain
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False)


def on_ranks(length: int, world: int, interleave: int) -> list[int]:
    return local_lens([length], 1, world, 0, interleave).rank_lens


class TestLocalLens:
    def test_runs_go_round_the_ranks(self) -> None:
        assert on_ranks(11, 4, 2) == [4, 3, 2, 2]

    def test_every_token_is_on_one_rank(self) -> None:
        for length in range(40):
            assert sum(on_ranks(length, 3, 5)) == length

    def test_a_rank_that_is_alone_holds_everything(self) -> None:
        assert on_ranks(7, 1, 16) == [7]

    def test_the_first_rank_holds_what_fits_one_run(self) -> None:
        assert on_ranks(3, 4, 8) == [3, 0, 0, 0]

    def test_a_padded_request_has_no_token_whatever_its_length(self) -> None:
        assert local_lens([5, 99], 1, 2, 1).local_lens == [2, 0]

    def test_a_rank_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ValueError, match="rank = 2, must be <= 1"):
            local_lens([5], 1, 2, 2)


def _held(lens: torch.Tensor, world: int, rank: int, interleave: int) -> torch.Tensor:
    whole = lens // (world * interleave) * interleave
    return whole + (lens % (world * interleave) - rank * interleave).clamp(0, interleave)


def by_rank(
    seq_lens: torch.Tensor,
    num_reqs: int,
    dcp_size: int,
    dcp_rank: int,
    cp_interleave: int,
    dcp_local_seq_lens: torch.Tensor,
) -> None:
    dcp_local_seq_lens.copy_(_held(seq_lens, dcp_size, dcp_rank, cp_interleave))
    dcp_local_seq_lens[num_reqs:] = 0


def without_interleave(
    seq_lens: torch.Tensor,
    num_reqs: int,
    dcp_size: int,
    dcp_rank: int,
    cp_interleave: int,
    dcp_local_seq_lens: torch.Tensor,
) -> None:
    by_rank(seq_lens, num_reqs, dcp_size, dcp_rank, 1, dcp_local_seq_lens)


def padding_left_alone(
    seq_lens: torch.Tensor,
    num_reqs: int,
    dcp_size: int,
    dcp_rank: int,
    cp_interleave: int,
    dcp_local_seq_lens: torch.Tensor,
) -> None:
    held = _held(seq_lens, dcp_size, dcp_rank, cp_interleave)
    dcp_local_seq_lens[:num_reqs] = held[:num_reqs]


def of_every_rank(
    seq_lens: torch.Tensor, num_requests: int, world: int, rank_lens: torch.Tensor, interleave: int
) -> None:
    for rank in range(world):
        rank_lens[:, rank] = _held(seq_lens, world, rank, interleave)
    rank_lens[num_requests:] = 0


def test_torch_in_the_names_of_vllm_is_right() -> None:
    verdict = cumae.check(by_rank, "local_lens", dialect="vllm", domain=TORCH, examples=40, save_to=None)
    assert verdict.ok, cumae.explain(verdict)


def test_the_lengths_of_every_rank_are_rows() -> None:
    verdict = cumae.check(of_every_rank, "local_lens", domain=TORCH, examples=40, save_to=None)
    assert verdict.ok, cumae.explain(verdict)


@pytest.mark.parametrize(
    ("wrong", "check"), [(without_interleave, "agrees"), (padding_left_alone, "writes_everything")]
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str) -> None:
    verdict = cumae.check(wrong, "local_lens", dialect="vllm", domain=TORCH, examples=40, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "request"
