"""The experts that each token of the step is routed to, and their weights."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import copysign, exp, fsum, inf, isfinite, isnan
from typing import Any, NamedTuple

from cumae.oracle.model.marks import ANY, GARBAGE, Mark
from cumae.oracle.model.rules import require, require_int

_FP32 = struct.Struct("<f")
LARGEST_BIAS = 2.0**126


class GroupedTopk(NamedTuple):
    """``expert_ids`` int32 and ``expert_weights`` fp32, both [T * top_k], token after token."""

    expert_ids: list[int | Mark]
    expert_weights: list[float | Mark]


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """One token: each expert's logit and bias, its score and choice, and each group's score.

    Two of them are the same if they are one object: what is found of a token is kept with it. An expert
    whose logit is NaN has choice -inf; a group with fewer than two other experts has score -inf.
    """

    logits: Sequence[float]
    bias: Sequence[float]
    scores: list[float]
    choices: list[float]
    group_scores: list[float]
    group_size: int

    def members(self, group: int) -> range:
        """Return the experts of a group."""
        return range(group * self.group_size, (group + 1) * self.group_size)

    def bits(self, expert: int) -> tuple[float, ...]:
        """Return a key that two experts share if their logits and biases are the same bit for bit."""
        x, b = self.logits[expert], self.bias[expert]
        return x, copysign(1, x), b, copysign(1, b)


def grouped_topk(
    logits: Sequence[Sequence[Any]],
    bias: Sequence[float],
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float = 1.0,
    renormalize: bool = True,
) -> GroupedTopk:
    """Return the ideal selection of each token, largest choice first, with its weights rounded to fp32.

    ``logits`` [T, E] and ``bias`` [E] are numbers as they are stored, bf16 or fp32. An expert's choice is
    ``sigmoid(logit) + bias``; a group's score is the sum of its two largest choices. Of the ``topk_group``
    groups with the largest score the ``top_k`` experts with the largest choice are taken. Weights come from
    the scores without bias: ``scaling_factor * s / (sum of s + 1e-20)``, or ``scaling_factor * s``. Ties go
    to the lower index. A row that is garbage, or has too few numbers to choose from, is ANY.

    Rounding can make other answers right as well; ``grouped_topk_faults`` judges them. Raises ``ValueError``
    for an impossible shape and for a bias that is not finite. Source: DeepSeek-V3, vLLM's ``grouped_topk``.

    Three tokens, the second of them padding; four experts in two groups. A score is 1/2 for a logit of 0, 0
    and 1 at the infinities. Expert 3 is the best of the first token, but its group loses: 1 against 1.25.

    >>> far, bias = float("inf"), [0.0, 0.25, 0.0, 0.0]
    >>> logits = [[0.0, 0.0, -far, far], [GARBAGE] * 4, [-far, 0.0, 0.0, far]]
    >>> found = grouped_topk(logits, bias, num_groups=2, topk_group=1, top_k=2, scaling_factor=3.0)
    >>> found.expert_ids, found.expert_weights
    ([1, 0, ANY, ANY, 3, 2], [1.5, 1.5, ANY, ANY, 2.0, 1.0])
    """
    check_router_shape(len(bias), num_groups, topk_group, top_k)
    ids: list[int | Mark] = []
    weights: list[float | Mark] = []
    for row in logits:
        token = None if GARBAGE in row else routed(row, bias, num_groups)
        chosen = None if token is None else ideal_selection(token, topk_group, top_k)
        if token is None or chosen is None:
            ids += [ANY] * top_k
            weights += [ANY] * top_k
            continue
        ids += chosen
        weights += map(rounded_to_fp32, weights_of(token, chosen, scaling_factor, renormalize))
    return GroupedTopk(ids, weights)


def check_router_shape(num_experts: int, num_groups: int, topk_group: int, top_k: int) -> None:
    """Raise ``ValueError`` unless experts form equal groups of 2 or more whose kept ones hold ``top_k``."""
    require_int("num_groups", num_groups, 1)
    rule = "divide evenly into groups of at least 2"
    require(num_experts % num_groups == 0 and num_experts >= 2 * num_groups, "num_experts", num_experts, rule)
    require_int("topk_group", topk_group, 1)
    require(topk_group <= num_groups, "topk_group", topk_group, f"be <= {num_groups}")
    require_int("top_k", top_k, 1)
    kept = topk_group * (num_experts // num_groups)
    require(top_k <= kept, "top_k", top_k, f"be <= {kept}")


def routed(row: Sequence[float], bias: Sequence[float], num_groups: int) -> Routed:
    """Return scores, choices and group scores of a token, whose row is asked for several times."""
    require(len(row) == len(bias), "logits: number of a row", len(row), f"be {len(bias)}, one an expert")
    numbers = struct.Struct(f"<{len(bias)}d")  # 0.0 and -0.0 are equal, but their bytes are not
    return _routed(numbers.pack(*row), numbers.pack(*bias), num_groups)


@lru_cache(maxsize=512)
def _routed(packed_row: bytes, packed_bias: bytes, num_groups: int) -> Routed:
    numbers = struct.Struct(f"<{len(packed_bias) // 8}d")
    row, bias = numbers.unpack(packed_row), numbers.unpack(packed_bias)
    for i, value in enumerate(bias):
        usable = isfinite(value) and abs(value) <= LARGEST_BIAS
        require(usable, f"bias[{i}]", value, "be finite, and at most 2^126: two of them must not overflow")
    scores = [sigmoid(logit) for logit in row]
    choices = [-inf if isnan(s) else s + b for s, b in zip(scores, bias, strict=True)]
    size = len(bias) // num_groups
    descending = [-choice for choice in choices]
    group_scores = []
    for start in range(0, len(bias), size):
        first, second = sorted(range(start, start + size), key=descending.__getitem__)[:2]
        # Rounded once, so that (s + b) + (t + c) and (s + c) + (t + b) tie in any order of addition.
        terms = (scores[first], bias[first], scores[second], bias[second])
        group_scores.append(-inf if choices[second] == -inf else fsum(terms))
    return Routed(row, bias, scores, choices, group_scores, size)


def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x)), 1 and 0 at the infinities, NaN for NaN."""
    if x < 0:
        power = exp(x)
        return power / (1 + power)
    return 1 / (1 + exp(-x))


def best_groups(token: Routed, topk_group: int) -> list[int]:
    """Return the groups with the largest scores; ties go to the lower index."""
    groups = range(len(token.group_scores))
    return sorted(groups, key=lambda g: (-token.group_scores[g], g))[:topk_group]


def selection(token: Routed, groups: Sequence[int], top_k: int) -> list[int] | None:
    """Return the experts of these groups with the largest choices, or None if too few have a choice."""
    if any(token.group_scores[g] == -inf for g in groups):
        return None
    kept = sorted(i for g in groups for i in token.members(g))
    chosen = sorted(kept, key=lambda i: (-token.choices[i], i))[:top_k]
    return None if token.choices[chosen[-1]] == -inf else chosen


@lru_cache(maxsize=512)
def ideal_selection(token: Routed, topk_group: int, top_k: int) -> list[int] | None:
    """Return the experts of the best groups with the largest choices, or None; callers do not change it."""
    return selection(token, best_groups(token, topk_group), top_k)


def weights_of(token: Routed, ids: Sequence[int], scaling_factor: float, renormalize: bool) -> list[float]:
    """Return the exact weight of each of the experts ``ids``."""
    scores = [token.scores[i] for i in ids]
    divisor = sum(scores) + 1e-20 if renormalize else 1.0
    return [scaling_factor * score / divisor for score in scores]


def rounded_to_fp32(value: float) -> float:
    """Return the fp32 number nearest to ``value``."""
    rounded: float = _FP32.unpack(_FP32.pack(value))[0]
    return rounded
