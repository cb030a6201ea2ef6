"""The validator of a router: it accepts the selections and weights that fp32 rounding can produce.

``grouped_topk.md`` in ``properties/operations`` derives the bounds.
"""

from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

from cumae.oracle.grouped_topk import (
    Routed,
    best_groups,
    check_router_shape,
    ideal_selection,
    routed,
    weights_of,
)
from cumae.oracle.model.fault import Fault
from cumae.oracle.model.marks import GARBAGE
from cumae.oracle.router_logits import as_stored
from cumae.oracle.router_margins import (
    Margins,
    Rounding,
    Ties,
    group_key,
    is_undefined,
    margins_of,
    weight_ranges,
)

IN_BF16 = 'it is a bf16 number near it, as a cumae.router(rounding="bf16") may give'
NEAR_IN_BF16 = 2**-6
"""The part of a weight by which a few operations in bf16 may miss it."""
NEAR_FACTORS = 2**-10
"""The part of the largest factor by which those of a row that are taken for one may differ."""
LOWER_FIRST = 'the lower index goes first, unless the operation is cumae.router(ties="any")'


def grouped_topk_faults(
    logits: Sequence[Sequence[Any]],
    bias: Sequence[float],
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
    renormalize: bool,
    expert_ids: Sequence[int],
    expert_weights: Sequence[float] | None = None,
    ties: Ties = "lower",
    rounding: Rounding = "fp32",
) -> list[Fault]:
    """Return a sentence for each wrong row of an answer.

    ``expert_ids`` and ``expert_weights`` [T * top_k], in any order within a row. ``ties``: with ``"lower"``,
    the lower index wins between experts with the same logit and bias, and between groups with the same two
    best; with ``"any"``, either may win.

    >>> ask = dict(num_groups=1, topk_group=1, top_k=2, scaling_factor=1.0, renormalize=True)
    >>> grouped_topk_faults([[0.0, 0.0, 2.0]], [0.0] * 3, **ask, expert_ids=[0, 2])
    []
    >>> grouped_topk_faults([[0.0, 0.0, 2.0]], [0.0] * 3, **ask, expert_ids=[2, 1])
    ['row 0: expert 1 is selected, expert 0 with the same logit and bias is not: the lower index goes first, \
unless the operation is cumae.router(ties="any")']
    """
    check_router_shape(len(bias), num_groups, topk_group, top_k)
    margins = margins_of(bias, rounding)
    faults: list[Fault] = []
    for t, row in enumerate(logits):
        part = slice(t * top_k, (t + 1) * top_k)
        ids = expert_ids[part]
        weights = None if expert_weights is None else expert_weights[part]
        token = None if GARBAGE in row else routed(row, bias, num_groups)
        fault = _not_experts(ids, weights, len(bias))
        if not fault and token is not None and not is_undefined(token, topk_group, top_k, margins):
            fault = _wrong_selection(token, ids, topk_group, margins, ties)
            if not fault and weights is not None:
                fault = _wrong_weight(token, ids, weights, scaling_factor, renormalize, margins)
        faults += [Fault(f"row {t}: {fault}", t)] if fault else []
    return faults


def _not_experts(ids: Sequence[int], weights: Sequence[float] | None, num_experts: int) -> str:
    """Return an unknown or repeated expert, or a weight that is not finite; "" if there is none."""
    for j, i in enumerate(ids):
        if not 0 <= i < num_experts:
            return f"expert {i} does not exist: there are {num_experts}"
        if i in ids[:j]:
            return f"expert {i} is selected twice"
        if weights is not None and not isfinite(weights[j]):
            return f"the weight of expert {i} is {weights[j]}, must be finite"
    return ""


def _wrong_selection(token: Routed, ids: Sequence[int], topk_group: int, margins: Margins, ties: Ties) -> str:
    """Return why no admissible set of groups gives this selection, or "".

    An admissible set contains the groups of the selection and, for each of them, every lower group with the
    same key. The best of the other groups fill it.
    """
    ideal = ideal_selection(token, topk_group, len(ids))
    if ideal is not None and set(ideal) == set(ids):
        return ""
    group_of = {i: i // token.group_size for i in ids}
    must = sorted(set(group_of.values()))
    for i, g in group_of.items():
        if token.choices[i] == -inf or token.group_scores[g] == -inf:
            return f"expert {i} is selected, but its choice or its group's score is not a number"
    worst = best_groups(token, topk_group)[-1]
    for i, g in group_of.items():
        if token.group_scores[g] < token.group_scores[worst] - 2 * margins.group:
            sums = f"{token.group_scores[g]:.9g} against {token.group_scores[worst]:.9g} of group {worst}"
            return f"expert {i} is selected, its group {g} is not among the best {topk_group}: {sums}"
    if len(must) > topk_group:
        return f"experts of {len(must)} groups are selected, must be of at most {topk_group}"
    missed = {
        g: _missed(token, g, ids, margins, ties) for g, score in enumerate(token.group_scores) if score > -inf
    }
    for g in must:
        if missed[g]:
            return missed[g]
    keys = {g: group_key(token, g, margins) for g in missed} if ties == "lower" else {g: g for g in missed}
    twins = {g: [h for h in missed if h < g and keys[h] == keys[g]] for g in missed}
    usable: set[int] = set()
    for g in missed:
        if (g in must or not missed[g]) and all(h in usable for h in twins[g]):
            usable.add(g)
    for g in must:
        if g not in usable:
            lower = next(h for h in twins[g] if h not in usable)
            return (
                f"experts of group {g} are selected, those of group {lower}, with the same best two, "
                f"are not: {LOWER_FIRST}"
            )
    kept = {g for h in must for g in (h, *twins[h])}
    if len(kept) > topk_group:
        more = f"more than {topk_group} groups must be kept"
        return f"with the same best two as groups {must} {more}: {LOWER_FIRST}"
    rest = sorted(usable - kept, key=lambda g: (-token.group_scores[g], g))
    kept.update(rest[: topk_group - len(kept)])
    out = [g for g in missed if g not in kept]
    best_out = max(out, key=lambda g: token.group_scores[g], default=-1)
    worst_in = min(kept, key=lambda g: token.group_scores[g])
    if len(kept) == topk_group and (
        best_out < 0 or token.group_scores[worst_in] >= token.group_scores[best_out] - 2 * margins.group
    ):
        return ""
    scores = f"{token.group_scores[best_out]:.9g} against {token.group_scores[worst_in]:.9g}"
    then = f"; then {missed[best_out]}" if missed[best_out] else ""
    return f"group {best_out} must be kept before group {worst_in}, {scores}{then}"


def _missed(token: Routed, group: int, ids: Sequence[int], margins: Margins, ties: Ties) -> str:
    """Return which expert of a group is missing from the selection if the group is kept, or ""."""
    lowest = min(ids, key=lambda i: token.choices[i])
    least = token.choices[lowest]
    for i in token.members(group):
        if i in ids or token.choices[i] == -inf:
            continue
        if token.choices[i] > least + 2 * margins.choice:
            choices = f"{least:.9g} against {token.choices[i]:.9g}"
            return f"expert {lowest} is selected before expert {i}, whose choice is larger, {choices}"
        above = [j for j in ids if j > i and token.bits(j) == token.bits(i)] if ties == "lower" else []
        if above:
            same = f"expert {i} with the same logit and bias is not"
            return f"expert {above[0]} is selected, {same}: {LOWER_FIRST}"
    return ""


def _wrong_weight(
    token: Routed,
    ids: Sequence[int],
    weights: Sequence[float],
    scaling_factor: float,
    renormalize: bool,
    margins: Margins,
) -> str:
    """Return which weight is none that rounding can give this selection, or ""."""
    exact = weights_of(token, ids, scaling_factor, renormalize)
    ranges = weight_ranges(token, ids, scaling_factor, renormalize, margins)
    for i, found, wanted, (least, most) in zip(ids, weights, exact, ranges, strict=True):
        if not least <= found <= most:
            within = wanted - least if found < wanted else most - wanted
            told = f"the weight of expert {i} is {found:.9g}, must be {wanted:.9g} within {within:.2g}"
            is_rounded = as_stored(found, "bf16") == found and abs(found - wanted) <= NEAR_IN_BF16 * wanted
            return told + (f": {IN_BF16}" if is_rounded else _factor(weights, exact, scaling_factor))
    return ""


def _factor(weights: Sequence[float], exact: Sequence[float], scaling_factor: float) -> str:
    """Return that a row's weights are the right ones times one factor, "" if not or if it is 0."""
    factors = [found / wanted for found, wanted in zip(weights, exact, strict=True) if wanted > 0]
    if len(factors) < 2 or min(factors) <= 0 or max(factors) - min(factors) > NEAR_FACTORS * max(factors):
        return ""
    told = f": each weight of the row is {factors[0]:.4g} times the right one"
    is_unscaled = abs(factors[0] * scaling_factor - 1) <= NEAR_FACTORS
    return told + (f", as without the scaling_factor of {scaling_factor:g}" if is_unscaled else "")
