"""The router of DeepSeek models."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import LOGITS_KINDS
from cumae.properties.engines.vllm.engine import ENGINE, SELECTED
from cumae.properties.operations.router import router

Tensor = torch.Tensor
_PLATFORM = SimpleNamespace(
    is_cuda=lambda: False, is_xpu=lambda: False, is_rocm=lambda: False, simple_compile_backend="eager"
)
_ENVS = SimpleNamespace(VLLM_USE_FUSED_MOE_GROUPED_TOPK=False, VLLM_BATCH_INVARIANT=False)
_NONZERO = tuple(kind for kind in LOGITS_KINDS if kind not in ("nan_and_inf", "huge_and_tiny"))
"""Kinds of logits with a positive sum of selected scores: this router divides by the sum."""


@ENGINE.adapts(
    "vllm/model_executor/layers/fused_moe/router/grouped_topk_router.py",
    "grouped_topk",
    operation=router(ties="any"),
    domain=SELECTED.having(logits_dtype=("fp32",), logits_kind=_NONZERO),
    current_platform=_PLATFORM,
    envs=_ENVS,
)
def grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, for fp32 logits."""

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
            topk,
            renormalize,
            num_expert_group,
            topk_group,
            "sigmoid",
            routed_scaling_factor,
            e_score_correction_bias,
        )
        return {"topk_weights": weights, "topk_ids": ids}

    return launch
