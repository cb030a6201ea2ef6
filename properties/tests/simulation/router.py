"""The router simulated: scores in long decimals, every set of groups tried, experts taken one by one."""

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from heapq import nlargest
from itertools import combinations
from math import fsum, inf, isinf, isnan
from typing import Any

import numpy as np

from cumae.oracle import GARBAGE, Case, Inputs
from cumae.properties.tests.simulation.tokens import Answer

_LONG = Context(prec=40)


def grouped_topk(case: Case) -> Answer:
    """Return experts and weights of each row, "any" where they are not specified."""
    inputs, options = Inputs(case), case.options
    ids: list[object] = []
    weights: list[object] = []
    for row in inputs["logits"]:
        found = None if row and row[0] is GARBAGE else _selected(row, inputs["bias"], case)
        if found is None:
            ids += ["any"] * options.router.top_k
            weights += ["any"] * options.router.top_k
            continue
        ids += found
        scores = [Decimal(_score(row[i])) for i in found]
        whole = _LONG.add(sum(scores), Decimal("1e-20")) if options.router.renormalize else Decimal(1)
        scale = Decimal(options.router.scaling_thousandths / 1000)
        weights += [float(np.float32(float(_LONG.divide(scale * score, whole)))) for score in scores]
    return {"expert_ids": ids, "expert_weights": weights}


def _selected(row: Sequence[float], bias: Sequence[float], case: Case) -> list[int] | None:
    options = case.options
    size = options.router.num_experts // options.router.num_groups
    choices = [_score(x) + b if not isnan(x) else -inf for x, b in zip(row, bias, strict=True)]
    totals = []
    for first in range(0, options.router.num_experts, size):
        known = [(_score(row[i]), bias[i]) for i in range(first, first + size) if not isnan(row[i])]
        two = nlargest(2, known, key=_exact)
        totals.append(fsum(two[0] + two[1]) if len(two) == 2 else -inf)
    # Of sets of groups, each with its best group first, the largest is the best.
    usable = sorted(((total, -g) for g, total in enumerate(totals) if not isinf(total)), reverse=True)
    kept = max(combinations(usable, options.router.topk_group), default=None)
    if kept is None:
        return None
    groups = [range(-g * size, -g * size + size) for _, g in kept]
    left = {i: choices[i] for experts in groups for i in experts if not isinf(choices[i])}
    taken: list[int] = []
    while left and len(taken) < options.router.top_k:
        best = max(left.values())
        taken.append(min(i for i, choice in left.items() if choice == best))
        del left[taken[-1]]
    return taken if len(taken) == options.router.top_k else None


@cache
def _exact(parts: tuple[float, float]) -> Fraction:
    """Return a score and a bias together, not rounded; -inf and inf are not among them."""
    return Fraction(parts[0]) + Fraction(parts[1])


@cache
def _score(x: Any) -> float:
    """Return 1 / (1 + e^-x)."""
    if abs(x) > 1000:
        return float(x > 0)
    return float(_LONG.divide(Decimal(1), _LONG.add(Decimal(1), _LONG.exp(Decimal(-x)))))
