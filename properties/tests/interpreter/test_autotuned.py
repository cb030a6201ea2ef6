"""An autotuned kernel runs where there is no clock to choose a configuration by."""

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check


@triton.autotune(
    configs=[triton.Config({"FIRST": 0}), triton.Config({"FIRST": 0}, num_warps=8)], key=["last"]
)
@triton.jit
def positions(
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    position_ids: tl.tensor,
    last: tl.tensor,
    FIRST: tl.constexpr,
) -> None:
    request = tl.program_id(0)
    start = tl.load(cu_seqlens_q + request)
    for i in range(start, tl.load(cu_seqlens_q + request + 1)):
        tl.store(position_ids + i, tl.load(context_lens + request) + i - start + FIRST)


def launch(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    position_ids.zero_()
    if context_lens.numel():
        positions[(context_lens.numel(),)](cu_seqlens_q, context_lens, position_ids, context_lens.numel())


@pytest.mark.skipif(prepare("auto") != "cpu", reason="a GPU has a clock")
def test_the_first_configuration_is_taken_in_the_interpreter() -> None:
    verdict = check(launch, "position_ids", checks=("agrees", "forgets_history"), examples=3, save_to=None)
    assert verdict.ok, verdict
    assert len(positions.configs) == 2
