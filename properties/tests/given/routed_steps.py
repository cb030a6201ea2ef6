"""Routed tokens that several tests are about."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import Options, grouped_topk_faults

ROUTED = frozenset({"router", "scaling_factor", "renormalize"})
U = 2.0**-24


def shape_of(options: Options) -> Any:
    return {name: options.value(name) for name in ("num_groups", "topk_group", "top_k")}


def judged(options: Options, rows: Any, bias: Any, ids: Any, weights: Any, **how: Any) -> Sequence[str]:
    scale, renormalize = options.router.scaling_thousandths / 1000, options.router.renormalize
    return grouped_topk_faults(rows, bias, **shape_of(options), scaling_factor=scale, renormalize=renormalize,
                               expert_ids=ids, expert_weights=weights, **how)  # fmt: skip
