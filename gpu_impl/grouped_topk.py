"""The experts of each token, chosen from the best groups, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_int, check_tensor
from cumae.gpu_impl.candidate_experts import sigmoid
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.grouped_topk_of_many import has_candidates, select_from_candidates
from cumae.gpu_impl.least_costs import (
    NEVER,
    WORD,
    choice_of,
    cost_of,
    experts_in_turn,
    first_experts,
    limit_of,
    num_bits,
    rank_of,
    two_least,
    words_of,
)

MAX_EXPERTS = 2048
# A warp has whole rows, so no step waits for another warp. Of few tokens each is a program's only row.
MOST_OF_FEW = 2048
EXPERTS_OF_MANY = 1024
EXPERTS_PER_WARP = 1024
# What a thread loads at once.
LOAD_BYTES = 16
# The most experts of a token that are found first and then ranked.
MAX_RANKED = 16


@triton.jit
def _choices(logits: tl.tensor, bias: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Return the choices at these addresses, fp32; -inf for NaN."""
    score = sigmoid(tl.load(logits, mask=mask, other=0).to(tl.float32))
    return tl.maximum(score + tl.load(bias, mask=mask, other=0).to(tl.float32), float("-inf"))


@triton.jit
def _kept_groups(cost: tl.tensor, topk_group: tl.tensor) -> tl.tensor:
    """Return which groups [rows, groups] are among the best topk_group of their row."""
    least, second = two_least(cost)
    # Half the sum of a group's two largest has the order of the sum and does not overflow for any bias. NaN
    # stands for groups past the last.
    score = tl.maximum(choice_of(least) * 0.5 + choice_of(second) * 0.5, float("-inf"))
    return rank_of(cost_of(score), topk_group) < topk_group


@triton.jit(do_not_specialize=["num_tokens", "scaling_factor"])
def _select_experts(
    logits: tl.tensor,
    bias: tl.tensor,
    expert_ids: tl.tensor,
    expert_weights: tl.tensor,
    num_tokens: tl.tensor,
    logit_row_stride: tl.tensor,
    num_groups: tl.tensor,
    group_size: tl.tensor,
    topk_group: tl.tensor,
    top_k: tl.tensor,
    scaling_factor: tl.tensor,
    RENORMALIZE: tl.constexpr,
    KEEPS_ALL: tl.constexpr,
    FULL: tl.constexpr,
    IN_TURN: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    NEXT: tl.constexpr,
    CHOSEN: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    o_row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_row = o_row < num_tokens
    o_first = o_row * logit_row_stride
    o_group = tl.arange(0, GROUPS)
    # [rows, groups, size / next, next]: by this order of the axes a group has as few threads as possible.
    o_next = tl.arange(0, NEXT)[None, None, None, :]
    o_size = (tl.arange(0, SIZE // NEXT) * NEXT)[None, None, :, None] + o_next
    o_bias = (o_group.to(tl.int64) * group_size)[None, :, None, None] + o_size
    o_expert = o_bias.to(tl.int32)
    m_expert = (o_group < num_groups)[None, :, None, None] & (o_size < group_size)
    m_logit = m_row[:, None, None, None]
    if not FULL:
        m_logit = m_logit & m_expert
    logit = tl.load(logits + o_first[:, None, None, None] + o_bias, mask=m_logit, other=0).to(tl.float32)
    # Loaded for each row, so that the threads of a row have the biases of its logits.
    o_bias = tl.broadcast_to(o_bias, (ROWS, GROUPS, SIZE // NEXT, NEXT))
    if FULL:
        added = tl.load(bias + o_bias).to(tl.float32)
    else:
        added = tl.load(bias + o_bias, mask=tl.broadcast_to(m_expert, o_bias.shape), other=0).to(tl.float32)
    cost = cost_of(tl.maximum(sigmoid(logit) + added, float("-inf")))
    if not FULL:
        cost = tl.where(m_expert, cost, NEVER)
    m_kept = tl.full((ROWS, GROUPS), 1, tl.int1)
    if not KEEPS_ALL:
        m_kept = _kept_groups(cost, topk_group)

    o_chosen = tl.arange(0, CHOSEN)[None, :]
    if IN_TURN:
        chosen = experts_in_turn(cost, m_kept, o_expert, top_k, CHOSEN)
    else:
        limit = tl.where(m_kept, limit_of(cost, m_kept, top_k)[:, None], 0)
        # More than top_k experts up to the limit: some of their choices are equal.
        words = words_of(cost <= limit[:, :, None, None])
        if tl.max(num_bits(words), axis=0) > top_k:
            chosen = experts_in_turn(cost, m_kept, o_expert, top_k, CHOSEN)
        else:
            o_word = (o_group * group_size)[None, :, None] + (tl.arange(0, words.shape[2]) * WORD)[
                None, None, :
            ]
            chosen = tl.full((ROWS, CHOSEN), 0, tl.int32)
            for i_chosen in range(0, top_k):
                expert = first_experts(words, o_word)
                first = tl.min(tl.min(expert, axis=2), axis=1)
                chosen = tl.where(o_chosen == i_chosen, first[:, None], chosen)
                rest = words & tl.sub(words, 1, sanitize_overflow=False)
                words = tl.where(expert == first[:, None, None], rest, words)
            # Found in the order of their indices; the weights are summed in the order of the choices.
            m_found = m_row[:, None] & (o_chosen < top_k)
            choice = _choices(logits + o_first[:, None] + chosen, bias + chosen, m_found)
            rank = rank_of(tl.where(o_chosen < top_k, cost_of(choice), NEVER - 1), top_k)
            m_place = tl.trans(rank)[:, :, None] == o_chosen[None, :, :]
            chosen = tl.sum(tl.where(m_place, tl.trans(chosen)[:, :, None], 0), axis=0)

    m_chosen = m_row[:, None] & (o_chosen < top_k)
    score = sigmoid(tl.load(logits + o_first[:, None] + chosen, mask=m_chosen, other=0).to(tl.float32))
    o_output = (o_row * top_k)[:, None] + o_chosen
    score = tl.where(m_chosen & (score == score), score, 0.0)
    if RENORMALIZE:
        total = tl.sum(score, axis=1)[:, None] + 1e-20
        score = tl.div_rn(score, tl.broadcast_to(total, (ROWS, CHOSEN)))
    tl.store(expert_ids + o_output, chosen, mask=m_chosen)
    tl.store(expert_weights + o_output, score * scaling_factor, mask=m_chosen)


def write_grouped_topk(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    expert_ids: torch.Tensor,
    expert_weights: torch.Tensor,
    scaling_factor: float,
    renormalize: bool,
) -> None:
    """Write the top_k experts of each token, taken from its topk_group best groups, and their weights.

    logits [T, E] fp32 or bf16, any stride between rows; bias [E] fp32 or bf16, finite; expert_ids int32 and
    expert_weights fp32 [T, top_k], contiguous. The experts of group g are g * (E // num_groups) on. In fp32:
    score = sigmoid(logit), choice = score + bias; a group is as good as the sum of its two largest choices,
    and of the best groups the experts with the largest choices are taken, in that order; of equal ones,
    groups too, the lower index first.
    The weights come from the scores s without bias: with renormalize scaling_factor * s / (sum of s + 1e-20),
    else scaling_factor * s.
    A NaN choice counts as -inf, and so does a group with fewer than two others. Where too few experts remain
    the ids are distinct and in range and the weights finite, and nothing more is promised. Every element is
    written. Does not synchronise or allocate, so a CUDA graph can capture it.
    Raises ValueError for a wrong dtype, device, shape, stride or number, where experts do not fall into
    groups of two or more of one size, and where top_k exceeds the experts of topk_group groups, before
    anything is written.
    Rule: DeepSeek-V3's router; vllm#42982 (bf16 logits).

    >>> logits = torch.tensor([[0.0, 3.0, 2.0, 2.0, 9.0, -9.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    >>> bias = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    >>> expert_ids, weights = torch.empty((2, 2), dtype=torch.int32), torch.empty((2, 2))
    >>> write_grouped_topk(logits, bias, 3, 2, 2, expert_ids, weights, 1.0, True)
    >>> expert_ids.tolist()
    [[5, 4], [5, 0]]
    >>> [[round(weight, 4) for weight in row] for row in weights.tolist()]
    [[0.0001, 0.9999], [0.5, 0.5]]
    """
    _check_inputs(logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize)
    num_tokens, num_experts = logits.shape
    check_tensor("expert_ids", expert_ids, (torch.int32,), (num_tokens, top_k), logits.device)
    check_tensor("expert_weights", expert_weights, (torch.float32,), (num_tokens, top_k), logits.device)
    if num_tokens == 0:
        return
    if num_tokens > MOST_OF_FEW and has_candidates(num_experts, num_groups, topk_group, top_k):
        outputs = expert_ids, expert_weights
        select_from_candidates(
            logits, bias, num_groups, topk_group, top_k, *outputs, scaling_factor, renormalize
        )
        return
    group_size = num_experts // num_groups
    groups, size = triton.next_power_of_2(num_groups), triton.next_power_of_2(group_size)
    rows = 1 if num_tokens <= MOST_OF_FEW else max(1, EXPERTS_OF_MANY // (groups * size))
    with torch.cuda.device(logits.get_device()):
        _select_experts[(-(-num_tokens // rows),)](
            logits,
            bias,
            expert_ids,
            expert_weights,
            num_tokens,
            logits.stride(0),
            num_groups,
            group_size,
            topk_group,
            top_k,
            float(scaling_factor),
            RENORMALIZE=renormalize,
            KEEPS_ALL=topk_group == num_groups,
            FULL=groups * size == num_experts,
            IN_TURN=num_tokens <= MOST_OF_FEW or top_k > MAX_RANKED,
            ROWS=rows,
            GROUPS=groups,
            SIZE=size,
            NEXT=min(size, LOAD_BYTES // logits.element_size()),
            CHOSEN=triton.next_power_of_2(top_k),
            num_warps=max(1, groups * size // EXPERTS_PER_WARP),
            **early(logits.device),
        )


def _check_inputs(
    logits: torch.Tensor,
    bias: torch.Tensor,
    num_groups: int,
    topk_group: int,
    top_k: int,
    scaling_factor: float,
    renormalize: bool,
) -> None:
    dtypes = (torch.float32, torch.bfloat16)
    check_tensor("logits", logits, dtypes, (None, None), contiguous=False)
    num_experts = logits.shape[1]
    if logits.stride(1) != 1:
        rule = "must be contiguous in the last dimension"
        raise ValueError(f"logits.stride() = {logits.stride()} with shape {tuple(logits.shape)}, {rule}")
    if num_experts > MAX_EXPERTS:
        raise ValueError(f"logits.shape = {tuple(logits.shape)}, must have <= {MAX_EXPERTS} experts")
    check_tensor("bias", bias, dtypes, (num_experts,), logits.device)
    check_int("num_groups", num_groups, 1)
    if num_experts % num_groups or num_experts < 2 * num_groups:
        rule = f"must divide {num_experts} experts into groups of at least 2"
        raise ValueError(f"num_groups = {num_groups}, {rule}")
    check_int("topk_group", topk_group, 1, num_groups)
    check_int("top_k", top_k, 1, topk_group * (num_experts // num_groups))
    is_number = isinstance(scaling_factor, (int, float)) and not isinstance(scaling_factor, bool)
    if not is_number or not 0 < scaling_factor <= torch.finfo(torch.float32).max:
        raise ValueError(f"scaling_factor = {scaling_factor!r}, must be a number > 0 that fp32 holds")
    check_choice("renormalize", renormalize, (True, False))
