"""Routers in torch and in Triton."""

from collections.abc import Callable
from typing import Any

import torch
import triton

from cumae.oracle import LOGITS_KINDS
from cumae.properties.engines.known import Known
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.operations.router import router

Tensor = torch.Tensor
_FINITE = tuple(kind for kind in LOGITS_KINDS if kind != "nan_and_inf")
_OF_ONE_MODEL = STEPS.having(logits_kind=_FINITE, bias_dtype=("fp32",))
"""Torch compiles the router wrong if the number of experts and the dtype of the bias change."""


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any"),
    dialect="vllm",
    domain=_OF_ONE_MODEL.having(logits_dtype=("fp32",)),
)
def biased_grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, for fp32 logits."""
    return _router(function)


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any", rounding="bf16"),
    dialect="vllm",
    domain=_OF_ONE_MODEL.having(logits_dtype=("bf16",)),
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


@ENGINE.adapts(
    "sglang/kernels/ops/moe/moe_fused_gate.py",
    "_router_triton_kernel",
    operation=router(ties="any"),
    dialect="vllm",
    domain=STEPS.having(logits_kind=_FINITE, max_tokens=64, padding="none"),
    known=Known(
        "sglang-fused_gate",
        "of a group whose best experts are equal, the score is the sum of the best and the third",
        {"logits_kind": ("random",), "bias_kind": ("as_logits",)},
    ),
)
def fused_gate(function: Any) -> Callable[..., None]:
    """The router in Triton, in programs of as many rows as SGLang gives one; it scales the weights."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        num_expert_group: int,
        topk_group: int,
        routed_scaling_factor: float,
        topk_weights: Tensor,
        topk_ids: Tensor,
    ) -> None:
        num_rows, num_experts = gating_output.shape
        if not num_rows:
            return
        width = triton.next_power_of_2(num_experts)
        rows = max(1, min(4, 256 // width))
        function[(-(-num_rows // rows),)](
            gating_output,
            e_score_correction_bias,
            None,
            None,
            None,
            topk_weights,
            topk_ids,
            topk_ids,
            num_rows,
            routed_scaling_factor,
            0.0,
            N=num_experts,
            K=topk,
            K_ROUTED=topk,
            BLOCK_M=rows,
            BLOCK_N=width,
            BLOCK_K=triton.next_power_of_2(topk),
            N_GROUP=num_expert_group,
            TOPK_GROUP=topk_group,
            EXPERTS_PER_GROUP=num_experts // num_expert_group,
            BLOCK_G=triton.next_power_of_2(num_expert_group),
            SCORING_FUNC=0,
            SQRTSOFTPLUS_LOG1P=False,
            HAS_SOFTCAP=False,
            RENORMALIZE=renormalize,
            APPLY_SCALE=True,
            HAS_BIAS=True,
            HAS_TOKEN_BIAS=False,
            BIAS_ALT_TOKEN_ID=None,
            HAS_PADDING=False,
            HAS_PACKED=False,
            RENORMALIZE_EPSILON=0.0,
            USE_PDL=False,
            stride_bias=1,
            stride_bias_alt=0,
            stride_input_ids=0,
            stride_sm=gating_output.stride(0),
            stride_sn=gating_output.stride(1),
            stride_wm=topk_weights.stride(0),
            stride_wk=topk_weights.stride(1),
            stride_im=topk_ids.stride(0),
            stride_ik=topk_ids.stride(1),
            stride_pm=0,
            stride_pk=0,
            num_warps=1 if width <= 512 else 4,
        )

    return launch
