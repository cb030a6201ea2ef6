"""The router of DeepSeek models."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import LOGITS_KINDS
from cumae.properties.engines.known import Known
from cumae.properties.engines.lightllm.engine import ENGINE, STEPS
from cumae.properties.operations.router import router

Tensor = torch.Tensor
_NONZERO = tuple(kind for kind in LOGITS_KINDS if kind not in ("nan_and_inf", "huge_and_tiny"))
"""Kinds of logits with a positive sum of selected scores: this router divides by the sum."""


@ENGINE.adapts(
    "lightllm/common/fused_moe/grouped_topk.py",
    "triton_grouped_topk",
    operation=router(ties="any"),
    dialect="vllm",
    domain=STEPS.having(logits_kind=_NONZERO, max_tokens=8, max_requests=8),
    known=Known(
        "lightllm-triton_grouped_topk",
        "every group as good as the last one kept is kept, so that there are more than topk_group of them",
        {"logits_kind": ("random",)},
    ),
)
def triton_grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router in Triton, whose caller scales the weights; few rows, as its sort is slow to interpret."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        num_expert_group: int,
        topk_group: int,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        logits = (gating_output, gating_output, e_score_correction_bias)
        weights, ids = function(*logits, topk, renormalize, num_expert_group, topk_group, "sigmoid")
        return {"topk_weights": weights * routed_scaling_factor, "topk_ids": ids}

    return launch
