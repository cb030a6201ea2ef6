"""Qwen 4 and GLM 5: positions of the groups that an indexer selects, and of those behind the last one."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.selected_groups import STEPS, Lists, by_two, with_groups
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor
_POOLS = with_groups(CUMAE, Lists(keeps_columns=True, free_id=-1))
_NVIDIA = "vllm/models/glm5next/nvidia/ops/kpool_compress.py"
_AMD = "vllm/models/glm5next/amd/ops/kpool_compress.py"
_FUSED = ("expand_pools_and_append_tail",)
_APART = ("expand_pools_to_tokens", "append_tail_to_topk")


def _count(number: int) -> list[int]:
    """Return the column behind the positions: how many they are."""
    return [number]


@ENGINE.adapts(
    "vllm/models/qwen4_exp/nvidia/ops/qsa_indexer.py",
    "expand_qsa_block_indices",
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists(behind=_count)),
    domain=STEPS,
)
def qsa_lists(function: Any) -> Callable[..., None]:
    """And how many they are, in the last column."""

    def expand(
        group_ids: Tensor, places: Tensor, eligible: Tensor, group_size: int, selected_positions: Tensor
    ) -> None:
        topk = group_ids.shape[1] * group_size
        function(group_ids, places, eligible, group_size, topk, selected_positions)

    return expand


@ENGINE.adapts(
    "vllm/models/qwen4_exp/amd/ops/qsa.py",
    "_expand_qsa_indices_kernel",
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists()),
    domain=STEPS,
)
def qsa_lists_on_amd(kernel: Any) -> Callable[..., None]:
    """With the length of each request."""

    def launch(
        group_ids: Tensor,
        places: Tensor,
        seq_lens: Tensor,
        token_to_request: Tensor,
        group_size: int,
        selected_positions: Tensor,
    ) -> None:
        (count, width), budget = selected_positions.shape, group_ids.shape[1]
        kernel[(count, -(-width // 256))](
            group_ids,
            places,
            seq_lens,
            token_to_request,
            selected_positions,
            *group_ids.stride(),
            *selected_positions.stride(),
            count,
            len(seq_lens),
            budget,
            group_size,
            budget * group_size,
            width,
            256,
        )

    return launch


def _fused(function: Any) -> Callable[..., dict[str, Tensor]]:
    def expand(group_ids: Tensor, keys_seen: Tensor, group_size: int) -> dict[str, Tensor]:
        return {"selected_positions": function(group_ids, keys_seen, group_size)}

    return expand


@ENGINE.adapts(_NVIDIA, *_FUSED, operation="window_slots", dialect=_POOLS, domain=STEPS)
def pool_positions(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Those behind the last whole pool have columns of their own."""
    return _fused(function)


@ENGINE.adapts(_AMD, *_FUSED, operation="window_slots", dialect=_POOLS, domain=STEPS)
def pool_positions_on_amd(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same, of AMD's models."""
    return _fused(function)


@ENGINE.adapts(_NVIDIA, *_APART, operation="window_slots", dialect=_POOLS, domain=STEPS)
def pool_positions_in_torch(expand_pools: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """By two functions, which the fused kernel replaces."""
    return by_two(expand_pools, append_tail)


@ENGINE.adapts(_AMD, *_APART, operation="window_slots", dialect=_POOLS, domain=STEPS)
def pool_positions_in_torch_on_amd(expand_pools: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """The same, of AMD's models."""
    return by_two(expand_pools, append_tail)
