"""The router of DeepSeek models."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import LOGITS_KINDS
from cumae.properties.engines.lmdeploy.engine import ENGINE, STEPS
from cumae.properties.operations.router import router

Tensor = torch.Tensor
_POSITIVE = tuple(kind for kind in LOGITS_KINDS if kind not in ("nan_and_inf", "negative", "low_biases"))
"""Kinds with choices above 0: LMDeploy keeps experts of other groups as 0, "for routing compatibility"."""


@ENGINE.adapts(
    "lmdeploy/pytorch/kernels/cuda/moe/route_noaux_tc.py",
    "fused_noaux_tc_routing",
    operation=router(ties="any"),
    dialect="vllm",
    domain=STEPS.having(
        logits_kind=_POSITIVE,
        bias_kind=("as_logits", "zero"),
        max_tokens=64,
        max_requests=16,
        router_shapes=((32, 4, 2, 3), (64, 1, 1, 6), (256, 8, 4, 8)),
    ),
)
def fused_noaux_tc_routing(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router in Triton, for numbers of experts that are powers of two from 32 on."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        num_expert_group: int,
        topk_group: int,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        logits = (gating_output, e_score_correction_bias, gating_output.shape[1])
        how = (num_expert_group, topk_group, topk, renormalize, routed_scaling_factor)
        weights, ids = function(*logits, *how)
        return {"topk_weights": weights, "topk_ids": ids.int()}

    return launch
