"""What vLLM's fused MoE layers add to its dialect: the arguments of ``grouped_topk``."""

from typing import Any

from cumae.oracle import Inputs
from cumae.properties.dialects.cumae import held_bias, held_logits
from cumae.properties.dialects.dialect import Input, NamedOutput


def _named(name: str, *carries: str) -> Input:
    def hold(inputs: Inputs) -> Any:
        return inputs[name]

    return Input(hold, carries)


def _per_expert(name: str, dtype: str) -> NamedOutput:
    return NamedOutput(
        dtype,
        lambda inputs: inputs.case.num_tokens_padded,
        lambda answer, _: list(getattr(answer, name)),
        "expert_of_token",
        says=name,
        width=lambda case: case.options.router.top_k,
        is_captured=False,
    )


ROUTER_INPUTS = {
    "gating_output": Input(held_logits, ("router",)),
    "e_score_correction_bias": Input(held_bias, ("router",)),
    "num_expert_group": _named("num_groups"),
    "topk_group": _named("topk_group"),
    "topk": _named("top_k"),
    "renormalize": _named("renormalize"),
    "routed_scaling_factor": _named("scaling_factor", "scaling_factor"),
}
ROUTER_OUTPUTS = {
    ("grouped_topk", "topk_weights"): _per_expert("expert_weights", "fp32"),
    ("grouped_topk", "topk_ids"): _per_expert("expert_ids", "int32"),
}
