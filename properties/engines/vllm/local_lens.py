"""The lengths that a rank of decode context parallelism holds."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/attention/backends/utils.py",
    "get_dcp_local_seq_lens",
    operation="local_lens",
    domain=STEPS.having(padding="none"),
)
def get_dcp_local_seq_lens(function: Any) -> Callable[..., None]:
    """In torch, for one rank; the caller has no padded requests."""

    def launch(
        seq_lens: Tensor,
        dcp_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        dcp_local_seq_lens: Tensor,
    ) -> None:
        dcp_local_seq_lens.copy_(function(seq_lens, dcp_size, dcp_rank, cp_kv_cache_interleave_size))

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/cp_utils.py",
    "prepare_dcp_local_seq_lens",
    operation="local_lens",
    domain=STEPS.having(world=(2, 3, 4, 8)),
)
def prepare_dcp_local_seq_lens(function: Any) -> Callable[..., None]:
    """Runner V2: a Triton kernel that writes 0 after the live requests and refuses a world of 1."""

    def launch(
        dcp_local_seq_lens: Tensor,
        seq_lens: Tensor,
        num_reqs: int,
        dcp_size: int,
        dcp_rank: int,
        cp_interleave: int,
    ) -> None:
        function(dcp_local_seq_lens, seq_lens, num_reqs, dcp_size, dcp_rank, cp_interleave)

    return launch
