"""Tokens on a context-parallel rank: worked by hand, and functions that are right or wrong about them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct.vllm import local_lens as right
from cumae.gpu_impl import write_local_lens
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


def without_interleave(
    seq_lens: torch.Tensor,
    num_reqs: int,
    dcp_size: int,
    dcp_rank: int,
    cp_interleave: int,
    dcp_local_seq_lens: torch.Tensor,
) -> None:
    right(seq_lens, num_reqs, dcp_size, dcp_rank, 1, dcp_local_seq_lens)


def padding_left_alone(
    seq_lens: torch.Tensor,
    num_reqs: int,
    dcp_size: int,
    dcp_rank: int,
    cp_interleave: int,
    dcp_local_seq_lens: torch.Tensor,
) -> None:
    right(seq_lens[:num_reqs], num_reqs, dcp_size, dcp_rank, cp_interleave, dcp_local_seq_lens[:num_reqs])


@pytest.mark.parametrize(
    ("wrong", "check"), [(without_interleave, "agrees"), (padding_left_alone, "writes_everything")]
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], check: str) -> None:
    verdict = cumae.check(wrong, "local_lens", dialect="vllm", domain=TORCH, examples=40, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.axis == "request"


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    lens = torch.tensor([3, 0, 5], dtype=torch.int32, device=DEVICE)
    outputs = {"local_lens": torch.full_like(lens, 77), "rank_lens": torch.full_like(lens, 77).repeat(2, 1).T}
    outputs["rank_lens"] = outputs["rank_lens"].contiguous()
    return {"seq_lens": lens, "num_requests": 2, "world": 2, "rank": 1, "interleave": 2, **outputs}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_requests", 4, "num_requests = 4"),
        ("rank", 2, "rank = 2"),
        ("interleave", 0, "interleave = 0"),
        ("seq_lens", torch.ones(3), "seq_lens."),
        ("local_lens", torch.ones(3, dtype=torch.int64), "local_lens.dtype = torch.int64"),
        ("rank_lens", torch.ones((3, 3), dtype=torch.int32), "rank_lens.shape = (3, 3)"),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(field: str, value: Any, says: str) -> None:
    good = arguments()
    write_local_lens(**good)
    assert good["local_lens"].tolist() == [1, 0, 0]
    bad = arguments() | {field: value.to(DEVICE) if isinstance(value, torch.Tensor) else value}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        write_local_lens(**bad)
    assert all((bad[name] == 77).all() for name in ("local_lens", "rank_lens") if name != field)


def test_a_function_that_does_not_read_its_rank_is_not_said_to_remember() -> None:
    def runs_from_the_rank_on(
        seq_lens: torch.Tensor, world: int, rank: int, interleave: int, local_lens: torch.Tensor
    ) -> None:
        rounds, rest = seq_lens // (world * interleave), seq_lens % (world * interleave)
        local_lens.copy_(rounds * interleave + (rest - rank).clamp(0, interleave))

    domain = cumae.Domain(captured=False, padding="any")
    for seed in range(3):
        verdict = cumae.check(
            runs_from_the_rank_on, "local_lens", domain=domain, examples=40, seed=seed, save_to=None
        )
        assert verdict.failure is not None and verdict.failure.finding.check == "agrees"


def test_padding_that_is_left_alone_names_its_promise() -> None:
    def live_rows(seq_lens: torch.Tensor, num_requests: int, local_lens: torch.Tensor) -> None:
        local_lens[:num_requests] = seq_lens[:num_requests]

    domain = cumae.Domain(world=(1,), captured=False)
    verdict = cumae.check(live_rows, "local_lens", domain=domain, examples=20, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.message.endswith("; Domain(padding='untouched') leaves it open")
    open_ = domain.having(padding="untouched")
    assert cumae.check(live_rows, "local_lens", domain=open_, examples=20, save_to=None).ok
