"""The router as an operation: rounding can make several answers right."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cumae import oracle
from cumae.oracle import Case, Inputs, Rounding, Ties
from cumae.properties.dialects import Output
from cumae.properties.operations.operation import Operation

_ASKED = ("logits", "bias", "num_groups", "topk_group", "top_k")


def _experts(case: Case) -> tuple[int, ...]:
    return (case.num_tokens_padded, case.options.router.top_k)


def router(ties: Ties = "lower", rounding: Rounding = "fp32") -> Operation:
    """Return the operation grouped_topk.

    ``ties``: whether exact ties go to the lower index, or to any. ``rounding``: ``bf16`` for kernels that
    round score, bias and choice to bf16, or compute weights from bf16 scores.
    """
    how: dict[str, Any] = {"ties": ties, "rounding": rounding}
    return Operation(
        "grouped_topk",
        oracle.grouped_topk,
        (
            Output(
                "expert_ids",
                "int32",
                "expert",
                "the top_k largest choices of the kept groups",
                shape=_experts,
            ),
            Output(
                "expert_weights",
                "fp32",
                "expert_weight",
                "scaling_factor * s / (sum of s + 1e-20) of the scores without bias",
                shape=_experts,
            ),
        ),
        frozenset({"router", "scaling_factor", "renormalize"}),
        "the top_k experts by sigmoid(logit) + bias in the topk_group groups whose two best sum highest; "
        "weights without bias",
        ("cumae.gpu_impl:write_grouped_topk",),
        judge=partial(_faults, **how),
        rights=partial(_rights, **how),
        unattended="rows go to experts after attention: no key or mask follows from it",
    )


def _faults(inputs: Inputs, outputs: Mapping[str, list[Any]], **how: Any) -> Sequence[str]:
    if "expert_ids" not in outputs:
        return ["`expert_ids` is not among the outputs: weights are judged by the experts they belong to"]
    asked = {name: inputs[name] for name in (*_ASKED, "scaling_factor", "renormalize")}
    given: dict[str, Any] = {**asked, **outputs, **how}
    return oracle.grouped_topk_faults(**given)


def _rights(inputs: Inputs, **how: Any) -> list[int]:
    return oracle.rights_of_rows(**{name: inputs[name] for name in _ASKED}, **how)
