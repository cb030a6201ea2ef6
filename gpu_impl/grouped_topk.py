"""The experts of each token, chosen from the best groups, as a Triton kernel."""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.arguments import check_choice, check_int, check_tensor

MAX_EXPERTS = 2048
# A warp has whole rows, so no step waits for another warp. Experts of a program, for few tokens and many.
EXPERTS_OF_FEW, EXPERTS_OF_MANY = 256, 1024
MOST_OF_FEW = 2048
EXPERTS_PER_WARP = 1024
# The most groups that are ranked by comparing all pairs, and not one after the other.
MAX_GROUPS_IN_PAIRS = tl.constexpr(32)

NEVER = tl.constexpr(-(2**31))
NO_GROUP = tl.constexpr(-(2**63))
LAST = tl.constexpr(2**31 - 1)


@triton.jit
def _ordered(choice: tl.tensor) -> tl.tensor:
    """Return int32 numbers in the order of the choices, all of them above NEVER."""
    bits = choice.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & LAST)


@triton.jit
def _sigmoid(logit: tl.tensor) -> tl.tensor:
    """Return the sigmoid in fp32 without overflow: 1 for +inf, 0 for -inf."""
    power = tl.exp(-tl.abs(logit))
    return tl.where(logit >= 0, 1.0, power) / (1.0 + power)


@triton.jit
def _load_choices(
    logits: tl.tensor,
    bias: tl.tensor,
    o_first: tl.tensor,
    o_expert: tl.tensor,
    m_row: tl.tensor,
    m_expert: tl.tensor,
) -> tl.tensor:
    """Return the choices of the experts of each row, fp32; -inf for NaN and outside m_expert."""
    o_logit = o_first[:, None, None] + o_expert
    logit = tl.load(logits + o_logit, mask=m_row[:, None, None] & m_expert, other=0).to(tl.float32)
    choice = _sigmoid(logit) + tl.load(bias + o_expert, mask=m_expert, other=0).to(tl.float32)
    return tl.where(m_expert & (choice == choice), choice, float("-inf"))


@triton.jit
def _rank_groups(choice: tl.tensor, o_group: tl.tensor, topk_group: tl.tensor) -> tl.tensor:
    """Return how many groups are better than each [rows, groups]; of many groups, right for those kept.

    choice [rows, groups, size]. Groups past the last have -inf and the highest indices.
    """
    largest = tl.max(choice, axis=2)
    is_largest = choice == largest[:, :, None]
    second = tl.max(tl.where(is_largest, float("-inf"), choice), axis=2)
    second = tl.where(tl.sum(is_largest.to(tl.int32), axis=2) > 1, largest, second)
    # Half the sum of a group's two largest has the order of the sum and does not overflow for any bias. On
    # ties, the lower group has the larger key.
    key = (_ordered(largest * 0.5 + second * 0.5).to(tl.int64) << 32) | (o_group ^ LAST)
    if key.shape[1] <= MAX_GROUPS_IN_PAIRS:
        rank = tl.sum((key[:, None, :] > key[:, :, None]).to(tl.int32), axis=2)
    else:
        rank = tl.full(key.shape, LAST, tl.int32)
        for i_rank in range(0, topk_group):
            is_best = key == tl.max(key, axis=1)[:, None]
            rank = tl.where(is_best, i_rank, rank)
            key = tl.where(is_best, NO_GROUP, key)
    return rank


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
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    CHOSEN: tl.constexpr,
) -> None:
    o_row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_row = o_row < num_tokens
    o_group = tl.arange(0, GROUPS)[None, :]
    o_size = tl.arange(0, SIZE)[None, None, :]
    o_expert = o_group[:, :, None].to(tl.int64) * group_size + o_size
    m_expert = (o_group[:, :, None] < num_groups) & (o_size < group_size)
    o_first = o_row * logit_row_stride
    choice = _load_choices(logits, bias, o_first, o_expert, m_row, m_expert)
    if not KEEPS_ALL:
        m_kept = (_rank_groups(choice, o_group, topk_group) < topk_group)[:, :, None]
        choice = tl.where(m_kept, choice, float("-inf"))
        m_expert = m_expert & m_kept
    key = tl.reshape(tl.where(m_expert, _ordered(choice), NEVER), (ROWS, GROUPS * SIZE))
    o_key = tl.reshape(tl.broadcast_to(o_expert.to(tl.int32), (ROWS, GROUPS, SIZE)), (ROWS, GROUPS * SIZE))

    o_chosen = tl.arange(0, CHOSEN)[None, :]
    chosen = tl.full((ROWS, CHOSEN), 0, tl.int32)
    for i_chosen in range(0, top_k):
        is_best = key == tl.max(key, axis=1)[:, None]
        best = tl.min(tl.where(is_best, o_key, LAST), axis=1)[:, None]
        chosen = tl.where(o_chosen == i_chosen, best, chosen)
        key = tl.where(o_key == best, NEVER, key)

    m_chosen = m_row[:, None] & (o_chosen < top_k)
    o_logit = o_first[:, None] + chosen
    score = _sigmoid(tl.load(logits + o_logit, mask=m_chosen, other=0).to(tl.float32))
    score = tl.where(m_chosen & (score == score), score, 0.0)
    if RENORMALIZE:
        total = tl.sum(score, axis=1)[:, None] + 1e-20
        score = tl.div_rn(score, tl.broadcast_to(total, (ROWS, CHOSEN)))
    o_output = (o_row * top_k)[:, None] + o_chosen
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
    group_size = num_experts // num_groups
    groups, size = triton.next_power_of_2(num_groups), triton.next_power_of_2(group_size)
    experts = EXPERTS_OF_FEW if num_tokens <= MOST_OF_FEW else EXPERTS_OF_MANY
    rows = max(1, experts // (groups * size))
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
            ROWS=rows,
            GROUPS=groups,
            SIZE=size,
            CHOSEN=triton.next_power_of_2(top_k),
            num_warps=max(1, groups * size // EXPERTS_PER_WARP),
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
