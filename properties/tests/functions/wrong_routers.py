"""Routers in plain torch that are wrong on purpose, each in one thing."""

import torch

Routed = tuple[torch.Tensor, torch.Tensor]


def _choices(logits: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = logits.float().sigmoid()
    return scores, (scores + bias.float()).masked_fill(scores.isnan(), float("-inf"))


def _masked(choices: torch.Tensor, group_scores: torch.Tensor, topk_group: int) -> torch.Tensor:
    groups = group_scores.sort(dim=1, descending=True, stable=True).indices[:, :topk_group]
    kept = torch.zeros_like(group_scores, dtype=torch.bool).scatter(1, groups, True)
    size = choices.shape[1] // group_scores.shape[1]
    return choices.masked_fill(~kept.repeat_interleave(size, 1), float("-inf"))


def _two_best(choices: torch.Tensor, num_groups: int) -> torch.Tensor:
    grouped = choices.reshape(choices.shape[0], num_groups, choices.shape[1] // num_groups)
    return grouped.sort(dim=2, descending=True).values[:, :, :2].sum(2)


def _first(masked: torch.Tensor, top_k: int) -> torch.Tensor:
    return masked.sort(dim=1, descending=True, stable=True).indices[:, :top_k]


def _weights(scores: torch.Tensor, ids: torch.Tensor, scale: float, renormalize: bool) -> torch.Tensor:
    weights = scores.gather(1, ids).nan_to_num()
    return (weights / (weights.sum(1, keepdim=True) + 1e-20) if renormalize else weights) * scale


def never_renormalized(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
) -> Routed:
    scores, choices = _choices(logits, bias)
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    return ids.int(), _weights(scores, ids, scaling_factor, False)


def scaled_before_the_sum(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
) -> Routed:
    scores, choices = _choices(logits, bias)
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    return ids.int(), _weights(scores * scaling_factor, ids, 1.0, True)


def groups_ignored(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    scores, choices = _choices(logits, bias)
    ids = _first(choices, top_k)
    return ids.int(), _weights(scores, ids, 1.0, True)


def second_distinct_value(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Masks every expert that equals the best of its group before it looks for the second best."""
    scores, choices = _choices(logits, bias)
    grouped = choices.reshape(choices.shape[0], num_groups, choices.shape[1] // num_groups)
    best = grouped.amax(2, keepdim=True)
    second = grouped.masked_fill(grouped == best, float("-inf")).amax(2, keepdim=True)
    ids = _first(_masked(choices, (best + second).squeeze(2), topk_group), top_k)
    return ids.int(), _weights(scores, ids, 1.0, True)


def higher_index_first(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    scores, choices = _choices(logits, bias)
    masked = _masked(choices, _two_best(choices, num_groups), topk_group)
    ids = masked.shape[1] - 1 - _first(masked.flip(1), top_k)
    return ids.int(), _weights(scores, ids, 1.0, True)


def higher_group_first(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    scores, choices = _choices(logits, bias)
    masked = _masked(choices.flip(1), _two_best(choices, num_groups).flip(1), topk_group).flip(1)
    ids = _first(masked, top_k)
    return ids.int(), _weights(scores, ids, 1.0, True)


def not_a_number_first(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    scores = logits.float().sigmoid()
    choices = scores + bias.float()
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    return ids.int(), _weights(scores, ids, 1.0, True)


def sigmoid_in_bf16(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Rounds scores, biases and choices to bf16."""
    scores = logits.float().sigmoid().bfloat16()
    choices = (scores + bias.bfloat16()).float().masked_fill(scores.isnan(), float("-inf"))
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    return ids.int(), _weights(scores.float(), ids, 1.0, True)


def _routed_in_bf16(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Return the selected experts and their scores in bf16."""
    scores = logits.float().sigmoid().bfloat16()
    choices = (scores + bias.bfloat16()).float().masked_fill(scores.isnan(), float("-inf"))
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    return ids.int(), scores.gather(1, ids).nan_to_num()


def all_in_bf16(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
    renormalize: bool,
) -> Routed:
    """Makes weights of scores in bf16 too."""
    ids, weights = _routed_in_bf16(logits, bias, num_groups, topk_group, top_k)
    if renormalize:
        weights = (weights / weights.sum(1, keepdim=True)).nan_to_num()
    return ids, (weights * scaling_factor).float()


def all_in_fp8(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Rounds weights to eight bits."""
    ids, weights = _routed_in_bf16(logits, bias, num_groups, topk_group, top_k)
    weights = (weights.float() / weights.float().sum(1, keepdim=True)).nan_to_num()
    return ids, weights.to(torch.float8_e4m3fn).float()


def one_weight_forgotten(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Leaves the last expert out of the sum, where there are several."""
    ids, weights = _routed_in_bf16(logits, bias, num_groups, topk_group, top_k)
    total = weights[:, : max(top_k - 1, 1)].sum(1, keepdim=True)
    return ids, (weights / total).nan_to_num(posinf=0).float()


def padding_beyond_the_experts(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Sorts NaN last as an index past the end, where a row has nothing else."""
    scores, choices = _choices(logits, bias)
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    ids = ids.masked_fill(scores.isnan().all(1, keepdim=True), logits.shape[1])
    return ids.int(), _weights(scores, ids.clamp(max=logits.shape[1] - 1), 1.0, True)


def last_row_left_alone(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    expert_ids: torch.Tensor,
    expert_weights: torch.Tensor,
) -> None:
    scores, choices = _choices(logits, bias)
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    expert_ids[:-1] = ids[:-1].int()
    expert_weights[:-1] = _weights(scores, ids, 1.0, True)[:-1]


def mean_over_the_step(
    logits: torch.Tensor, bias: torch.Tensor, num_groups: int, topk_group: int, top_k: int
) -> Routed:
    """Adds what padding holds to every row, a little of it."""
    scores, choices = _choices(logits, bias)
    ids = _first(_masked(choices, _two_best(choices, num_groups), topk_group), top_k)
    shift = 1e-8 * logits.float().nan_to_num().clamp(-1, 1).sum()
    return ids.int(), _weights(scores, ids, 1.0, True) + shift.clamp(-1e-7, 1e-7)
