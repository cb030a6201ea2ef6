"""The lengths that a rank of decode context parallelism holds."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, STEPS, V2

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


@ENGINE.adapts(
    "vllm/v1/attention/backends/utils.py",
    "get_dcp_local_seq_lens",
    operation="local_lens",
    dialect="cumae",
    domain=STEPS.having(padding="none"),
)
def get_dcp_lens_of_all_ranks(function: Any) -> Callable[..., dict[str, Tensor]]:
    """In torch, for every rank; the caller has no padded requests and lengths in 32 bits."""

    def launch(seq_lens: Tensor, world: int, interleave: int) -> dict[str, Tensor]:
        lens = function(seq_lens.int(), world, cp_kv_cache_interleave_size=interleave)
        return {"rank_lens": lens}

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "prepare_pos_seq_lens",
    operation="local_lens",
    dialect=V2,
    domain=STEPS.having(world=(1,)),
)
def seq_lens_of_step(function: Any) -> Callable[..., None]:
    """Runner V2: lengths after the step, 0 on padded requests; one rank holds all of them."""

    def launch(
        idx_mapping: Tensor, query_start_loc: Tensor, num_computed_tokens: Tensor, dcp_local_seq_lens: Tensor
    ) -> None:
        positions = torch.empty(int(query_start_loc[-1]), dtype=torch.int64, device=idx_mapping.device)
        function(idx_mapping, query_start_loc, num_computed_tokens, positions, dcp_local_seq_lens)

    return launch
