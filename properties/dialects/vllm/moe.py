"""The names that vLLM's fused MoE layers add to its dialect: the arguments of ``grouped_topk``."""

from typing import Any

from cumae.oracle import Inputs
from cumae.properties.dialects.cumae import held_bias, held_logits
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.output import Output


def _named(name: str, *carries: str) -> Input:
    def hold(inputs: Inputs) -> Any:
        return inputs[name]

    return Input(hold, carries)


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
    "grouped_topk": (
        Output("topk_weights", follows="expert_weights", is_captured=False),
        Output("topk_ids", follows="expert_ids", is_captured=False),
    ),
}
