"""Routers' oracles that are wrong on purpose, each as an engine's was or might be."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from cumae.oracle import GARBAGE, GroupedTopk, grouped_topk
from cumae.oracle.grouped_topk import (
    Routed,
    best_groups,
    rounded_to_fp32,
    routed,
    selection,
    weights_of,
)
from cumae.oracle.router_logits import as_stored

Rows = Sequence[Sequence[Any]]


def _routed(
    logits: Rows,
    bias: Sequence[float],
    num_groups: int,
    top_k: int,
    route: Callable[[Routed], GroupedTopk | None],
) -> GroupedTopk:
    """Return what ``route`` says of each row; nothing of a row that is garbage or undefined."""
    nothing = grouped_topk([[GARBAGE] * len(bias)], bias, 1, 1, top_k)
    found = [nothing if GARBAGE in row else route(routed(row, bias, num_groups)) or nothing for row in logits]
    return GroupedTopk(
        [i for one in found for i in one.expert_ids], [w for one in found for w in one.expert_weights]
    )


def _weighted(token: Routed, ids: list[int] | None) -> GroupedTopk | None:
    if ids is None:
        return None
    return GroupedTopk(list(ids), list(map(rounded_to_fp32, weights_of(token, ids, 1.0, True))))


def weights_with_the_bias(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    def route(token: Routed) -> GroupedTopk | None:
        ids = selection(token, best_groups(token, topk_group), top_k)
        if ids is None:
            return None
        total = sum(token.choices[i] for i in ids)
        return GroupedTopk(list(ids), [rounded_to_fp32(token.choices[i] / total) for i in ids])

    return _routed(logits, bias, num_groups, top_k, route)


def groups_masked_with_zero(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    def route(token: Routed) -> GroupedTopk | None:
        kept = {i for g in best_groups(token, topk_group) for i in token.members(g)}
        masked = [choice if i in kept else 0.0 for i, choice in enumerate(token.choices)]
        ids = sorted(range(len(masked)), key=lambda i: (-masked[i], i))[:top_k]
        return None if -inf in token.choices else _weighted(token, ids)

    return _routed(logits, bias, num_groups, top_k, route)


def best_one_of_a_group(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    def route(token: Routed) -> GroupedTopk | None:
        best = [max(token.choices[i] for i in token.members(g)) for g in range(num_groups)]
        groups = sorted(range(num_groups), key=lambda g: (-best[g], g))[:topk_group]
        return _weighted(token, selection(token, groups, top_k))

    return _routed(logits, bias, num_groups, top_k, route)


def bias_rounded_to_bf16(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    return grouped_topk(logits, [as_stored(value, "bf16") for value in bias], num_groups, topk_group, top_k)


def ties_to_the_higher_index(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    backwards = [list(row)[::-1] for row in logits]
    found = grouped_topk(backwards, bias[::-1], num_groups, topk_group, top_k)
    last = len(bias) - 1
    return found._replace(expert_ids=[last - i if isinstance(i, int) else i for i in found.expert_ids])


def groups_left_out(
    logits: Rows, bias: Sequence[float], num_groups: int, topk_group: int, top_k: int
) -> GroupedTopk:
    return grouped_topk(logits, bias, 1, 1, top_k)
