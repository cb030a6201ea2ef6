"""Bounds on how far rounding moves a router's scores, and the decisions that remain open within them.

``properties/operations/grouped_topk.md`` derives the bounds.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from math import inf
from typing import Any, Literal, NamedTuple

from cumae.oracle.grouped_topk import Routed, best_groups, routed, selection, weights_of
from cumae.oracle.model.marks import GARBAGE

Ties = Literal["lower", "any"]
Rounding = Literal["fp32", "bf16"]
U, U_BF16 = 2.0**-24, 2.0**-8


class Margins(NamedTuple):
    """How far a computed score, choice and group score may lie from the exact ones.

    ``unit``: half a unit in the last place of the arithmetic that turns scores into weights.
    """

    score: float
    choice: float
    group: float
    unit: float = U


def margins_of(bias: Sequence[float], rounding: Rounding = "fp32") -> Margins:
    """Return the error bounds of a router that computes in fp32, or rounds every value to bf16.

    >>> margins_of([0.5, -3.0])[:3]
    (4.76837158203125e-07, 7.748603820800781e-07, 2.2649765014648438e-06)
    """
    largest = max(map(abs, bias))
    if rounding == "bf16":
        choice, group = (c * (1 + largest) * U_BF16 for c in (2.1, 6.3))
        return Margins(8 * U + U_BF16, choice, group, U_BF16)
    return Margins(8 * U, (10 + largest) * U, (23 + 5 * largest) * U)


def rights_of_rows(
    logits: Sequence[Sequence[Any]],
    bias: Sequence[float],
    num_groups: int,
    topk_group: int,
    top_k: int,
    ties: Ties = "lower",
    rounding: Rounding = "fp32",
) -> list[int]:
    """Return for each row how many selections are right: 1, 2 for several that rounding decides, 0 for any.

    >>> rights_of_rows([[0.0, 0.0], [0.0, 1e-7], [0.0, 1.0], [0.0, float("nan")]], [0.0, 0.0], 1, 1, 1)
    [1, 2, 1, 0]
    """
    margins = margins_of(bias, rounding)
    rights = []
    for row in logits:
        token = None if GARBAGE in row else routed(row, bias, num_groups)
        if token is None or is_undefined(token, topk_group, top_k, margins):
            rights.append(0)
            continue
        groups = best_groups(token, topk_group)
        chosen = selection(token, groups, top_k)
        assert chosen is not None  # for mypy: the row is defined
        kept = [i for g in groups for i in token.members(g)]
        key = partial(group_key, token, margins=margins)
        open_groups = _is_open(token.group_scores, range(num_groups), groups, 2 * margins.group, key, ties)
        open_groups = open_groups and _decide(token, groups, chosen, margins)
        open_experts = _is_open(token.choices, kept, chosen, 2 * margins.choice, token.bits, ties)
        rights.append(2 if open_groups or open_experts else 1)
    return rights


def _is_open(
    values: Sequence[float],
    all_of: Sequence[int],
    taken: Sequence[int],
    reach: float,
    key: Callable[[int], object],
    ties: Ties,
) -> bool:
    """Return whether rounding, or a tie that goes to any, leaves a choice of the best entries."""
    left = set(all_of).difference(taken)
    lowest, highest = min(values[i] for i in taken), max((values[i] for i in left), default=-inf)
    if lowest > highest + reach:
        return False
    near = {key(i) for i in taken if values[i] <= highest + reach}
    near |= {key(i) for i in left if values[i] >= lowest - reach}
    return ties == "any" or len(near) > 1


def _decide(token: Routed, groups: Sequence[int], chosen: Sequence[int], margins: Margins) -> bool:
    """Return whether exchanging groups within rounding changes the selected experts."""
    scores, reach = token.group_scores, 2 * margins.group
    left = [g for g in range(len(scores)) if g not in groups]
    lowest, highest = min(scores[g] for g in groups), max((scores[g] for g in left), default=-inf)
    dropped = {i for g in groups if scores[g] <= highest + reach for i in token.members(g)}
    added = [i for g in left if scores[g] >= lowest - reach for i in token.members(g)]
    last = min(token.choices[i] for i in chosen)
    return bool(dropped & set(chosen)) or any(token.choices[i] >= last - 2 * margins.choice for i in added)


@lru_cache(maxsize=512)
def is_undefined(token: Routed, topk_group: int, top_k: int, margins: Margins) -> bool:
    """Return whether rounding can leave too few groups, or too few experts in the kept groups."""
    order = best_groups(token, len(token.group_scores))
    if token.group_scores[order[topk_group - 1]] == -inf:
        return True
    last, reach = token.group_scores[order[topk_group - 1]], 2 * margins.group
    best_out = token.group_scores[order[topk_group]] if topk_group < len(order) else -inf
    counts = [sum(token.choices[i] > -inf for i in token.members(g)) for g in order]
    sure = [n for g, n in zip(order, counts, strict=True) if token.group_scores[g] > best_out + reach]
    sure = sure[:topk_group]
    near = [
        n
        for g, n in list(zip(order, counts, strict=True))[len(sure) :]
        if token.group_scores[g] >= last - reach and token.group_scores[g] > -inf
    ]
    return sum(sure) + sum(sorted(near)[: topk_group - len(sure)]) < top_k


def group_key(token: Routed, group: int, margins: Margins) -> object:
    """Return a key that two groups share only if every rounding gives them the same score.

    The key holds the two best choices and those that rounding can put in their place. The second place has
    room for one, so its candidates count once, or twice if they can take the first place too.
    """
    members = sorted(token.members(group), key=lambda i: -token.choices[i])
    best, second = (token.choices[i] for i in members[:2])
    near = [i for i in members if token.choices[i] >= second - 2 * margins.choice and second > -inf]
    most = 1 if best > second + 2 * margins.choice else 2
    return frozenset((bit, min(count, most)) for bit, count in Counter(map(token.bits, near)).items())


def weight_ranges(
    token: Routed, ids: Sequence[int], scaling_factor: float, renormalize: bool, margins: Margins
) -> Iterator[tuple[float, float]]:
    """Yield the least and the largest right value of each weight."""
    exact = weights_of(token, ids, scaling_factor, renormalize)
    k, off, scores = len(ids), margins.score, [token.scores[i] for i in ids]
    total, coarse = sum(scores), margins.unit if margins.unit > U else 0.0
    lows, highs = [max(0.0, score - off) for score in scores], [score + off for score in scores]
    for score, wanted, low, high in zip(scores, exact, lows, highs, strict=True):
        p = score / total if total else 0.0
        if not renormalize:
            bound = scaling_factor * (off + 2 * U + 2.1 * coarse * (score + off))
        elif total > 2 * k * off:
            of_scores = off * (1 + k * p) / (total - k * off)
            bound = scaling_factor * (of_scores + U * (k + 3) * p + 4.1 * coarse * (p + of_scores))
        else:
            # Scores may be off by as much as they are: a weight is least with the others at their most.
            rounded = scaling_factor * (U * (k + 3) + 4.1 * coarse)
            least = low / (low + max(0.0, sum(highs) - high)) if low else 0.0
            most = high / (high + max(0.0, sum(lows) - low))
            yield max(0.0, scaling_factor * least - rounded), scaling_factor * most + rounded
            continue
        yield wanted - bound, wanted + bound
