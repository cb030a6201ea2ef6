"""Routers in torch."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import LOGITS_KINDS
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.operations.router import router

Tensor = torch.Tensor
_FINITE = tuple(kind for kind in LOGITS_KINDS if kind != "nan_and_inf")


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any"),
    dialect="vllm",
    domain=STEPS.having(logits_dtype=("fp32",), logits_kind=_FINITE),
)
def biased_grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, for fp32 logits."""
    return _router(function)


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any", rounding="bf16"),
    dialect="vllm",
    domain=STEPS.having(logits_dtype=("bf16",), logits_kind=_FINITE),
)
def biased_grouped_topk_in_bf16(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, for bf16 logits, which round the scores to bf16."""
    return _router(function)


def _router(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        num_expert_group: int,
        topk_group: int,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        weights, ids = function(
            gating_output,
            gating_output,
            e_score_correction_bias,
            topk,
            renormalize,
            num_expert_group,
            topk_group,
            routed_scaling_factor=routed_scaling_factor,
            apply_routed_scaling_factor_on_output=True,
        )
        return {"topk_weights": weights, "topk_ids": ids}

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "fused_topk_torch_native",
    operation=router(ties="any"),
    dialect="vllm",
    domain=STEPS.having(
        logits_dtype=("fp32",),
        logits_kind=_FINITE,
        router_shapes=((4, 1, 1, 3), (64, 1, 1, 6), (384, 1, 1, 8)),
    ),
)
def fused_topk_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router without groups in torch; its caller scales the weights."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        logits = (gating_output, gating_output)
        weights, ids = function(*logits, topk, renormalize, e_score_correction_bias, "sigmoid")
        return {"topk_weights": weights * routed_scaling_factor, "topk_ids": ids.int()}

    return launch
