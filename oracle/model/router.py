"""A router of tokens to experts: its sizes, its weights, and the logits that it gets."""

from dataclasses import dataclass

from cumae.oracle.grouped_topk import check_router_shape
from cumae.oracle.model.rules import require_bool, require_choice, require_int
from cumae.oracle.router_logits import (
    BIAS_KINDS,
    FLOAT_DTYPES,
    LOGITS_KINDS,
    BiasKind,
    FloatDtype,
    LogitsKind,
)


@dataclass(frozen=True, slots=True)
class Router:
    """A router of tokens to experts.

    ``num_experts`` in ``num_groups``, of which ``topk_group`` are kept and ``top_k`` experts selected.
    ``scaling_thousandths``: the factor of the weights, times 1000. ``renormalize``: whether the weights sum
    to 1 before. ``logits_dtype``, ``bias_dtype``: how logits and biases are stored. ``logits_kind``: what is
    hard about the logits. ``logits_seed``: which logits of a kind. ``bias_kind``: what is hard about the
    biases, which otherwise are those that make the logits hard.
    """

    num_experts: int = 8
    num_groups: int = 2
    topk_group: int = 1
    top_k: int = 2
    scaling_thousandths: int = 1000
    renormalize: bool = True
    logits_dtype: FloatDtype = "fp32"
    bias_dtype: FloatDtype = "fp32"
    logits_kind: LogitsKind = "random"
    logits_seed: int = 0
    bias_kind: BiasKind = "as_logits"

    def __post_init__(self) -> None:
        require_int("num_experts", self.num_experts, 2, 2**16)
        check_router_shape(self.num_experts, self.num_groups, self.topk_group, self.top_k)
        require_int("scaling_thousandths", self.scaling_thousandths, 1, 10**6)
        require_bool("renormalize", self.renormalize)
        require_choice("logits_dtype", self.logits_dtype, FLOAT_DTYPES)
        require_choice("bias_dtype", self.bias_dtype, FLOAT_DTYPES)
        require_choice("logits_kind", self.logits_kind, LOGITS_KINDS)
        require_int("logits_seed", self.logits_seed, 0)
        require_choice("bias_kind", self.bias_kind, BIAS_KINDS)
