"""The experts of many tokens, chosen from candidates: all no worse than two of each kept group."""

import math

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.candidate_experts import root_of_sigmoid, sigmoid, write_best
from cumae.gpu_impl.early_launch import early, wait_for_kernel_before
from cumae.gpu_impl.least_costs import LAST, NEVER, bits_of, cost_of, experts_in_turn, rank_of

# A group is one word; many rows of few experts are too much for a program.
SIZES = range(8, 33)
EXPERTS_OF_ROW = range(128, 1025)
# A program is one warp. A thread has one group of a row where there are as many.
EXPERTS_OF_PROGRAM = 1024
THREADS = 32
# What a thread loads at once.
LOAD_BYTES = 16
# The candidates of a row that are listed. With logits of N(0, 1), 256 experts and 4 of 8 groups, few suffice
# in 9 of 10 programs, and many in all but one of some thousands.
FEW = tl.constexpr(16)
MANY = tl.constexpr(32)


@triton.jit
def _pairs(x: tl.tensor) -> tl.tensor:
    """Return [rows, groups, chunks, part] as pairs of a fifth axis, of two chunks while there are two."""
    if x.shape[2] > 1:
        pairs = tl.permute(
            tl.reshape(x, (x.shape[0], x.shape[1], 2, x.shape[2] // 2, x.shape[3])), (0, 1, 3, 4, 2)
        )
    else:
        pairs = tl.reshape(x, (x.shape[0], x.shape[1], 1, x.shape[3] // 2, 2))
    return pairs


@triton.jit
def _two_most(choice: tl.tensor) -> tl.tensor:
    """Return the largest and the second largest of each group [rows, groups], -inf where there is none."""
    one, other = tl.split(_pairs(choice))
    # NaN in a pair: the other is its largest, and it has no second.
    most, second = tl.maximum(one, other), tl.minimum(one, other, propagate_nan=tl.PropagateNan.ALL)
    for _ in tl.static_range(10):
        if most.shape[2] * most.shape[3] > 1:
            one, other = tl.split(_pairs(most))
            one_second, other_second = tl.split(_pairs(second))
            most = tl.maximum(one, other)
            second = tl.maximum(
                tl.minimum(one, other, propagate_nan=tl.PropagateNan.ALL),
                tl.maximum(one_second, other_second),
            )
    most = tl.reshape(most, (choice.shape[0], choice.shape[1]))
    second = tl.reshape(second, (choice.shape[0], choice.shape[1]))
    return tl.maximum(most, float("-inf")), tl.maximum(second, float("-inf"))


@triton.jit
def _logits_by_rows(
    logits: tl.tensor,
    num_rows: tl.tensor,
    row_stride: tl.tensor,
    num_groups: tl.tensor,
    group_size: tl.tensor,
    FULL: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
) -> tl.tensor:
    """Return the logits [rows, groups * size]; neighbours are loaded by neighbouring threads."""
    o_row, o_column = tl.arange(0, ROWS)[:, None], tl.arange(0, GROUPS * SIZE)[None, :]
    p_row, m_row = logits + o_row.to(tl.int64) * row_stride, o_row < num_rows
    if FULL:
        logit = tl.load(p_row + o_column, mask=m_row, other=0)
    else:
        i_group, o_size = o_column // SIZE, o_column % SIZE
        m_expert = (i_group < num_groups) & (o_size < group_size)
        logit = tl.load(p_row + (i_group.to(tl.int64) * group_size + o_size), mask=m_row & m_expert, other=0)
    return logit


@triton.jit
def _choices(
    logits: tl.tensor,
    bias: tl.tensor,
    num_rows: tl.tensor,
    row_stride: tl.tensor,
    num_groups: tl.tensor,
    group_size: tl.tensor,
    FULL: tl.constexpr,
    BY_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    ABREAST: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
) -> tl.tensor:
    """Return the choices [rows, groups, size / part, part]; a thread has a group of a row."""
    CHUNKS: tl.constexpr = SIZE // PART
    DEEP: tl.constexpr = ROWS // ABREAST
    # [deep * chunks, groups * abreast * part]: the threads are neighbours in the last axis, a part of each.
    # Those of a group stand together, one for each of several rows, and load the same biases.
    o_wide = tl.arange(0, GROUPS * ABREAST * PART)[None, :]
    o_deep = tl.arange(0, DEEP * CHUNKS)[:, None]
    i_group, i_abreast, o_part = o_wide // (ABREAST * PART), o_wide // PART % ABREAST, o_wide % PART
    i_deep, o_chunk = o_deep // CHUNKS * ABREAST, o_deep % CHUNKS * PART
    o_group = i_group.to(tl.int64) * group_size + o_part
    p_logit = (logits + (i_abreast.to(tl.int64) * row_stride + o_group)) + (
        i_deep.to(tl.int64) * row_stride + o_chunk
    )
    p_bias = (bias + o_group) + o_chunk
    m_logit = i_deep + i_abreast < num_rows
    m_bias = (i_group < num_groups) & (o_chunk + o_part < group_size)
    if BY_ROWS:
        sizes = num_rows, row_stride, num_groups, group_size
        logit = _logits_by_rows(logits, *sizes, FULL, ROWS, GROUPS, SIZE)
        logit = tl.permute(tl.reshape(logit, (DEEP, ABREAST, GROUPS, CHUNKS, PART)), (0, 3, 2, 1, 4))
        logit = tl.reshape(logit, p_logit.shape)
    elif FULL:
        logit = tl.load(p_logit, mask=m_logit, other=0)
    else:
        logit = tl.load(p_logit, mask=m_logit & m_bias, other=0)
    if FULL:
        added = tl.load(p_bias)
    else:
        added = tl.load(p_bias, mask=m_bias, other=0)
    root = root_of_sigmoid(logit.to(tl.float32))
    choice = tl.reshape(root * root + added.to(tl.float32), (DEEP, CHUNKS, GROUPS, ABREAST, PART))
    return tl.reshape(tl.permute(choice, (0, 3, 2, 1, 4)), (ROWS, GROUPS, CHUNKS, PART))


@triton.jit(do_not_specialize=["num_tokens", "scaling_factor"])
def _select_from_candidates(
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
    BY_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    ABREAST: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    CHOSEN: tl.constexpr,
    UNIT: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    # The compiler then knows that UNIT divides it.
    group_size = (group_size // UNIT) * UNIT
    i_first = tl.program_id(0).to(tl.int64) * ROWS
    logits += i_first * logit_row_stride
    num_rows = tl.minimum(num_tokens - i_first, ROWS).to(tl.int32)
    choice = _choices(
        logits,
        bias,
        num_rows,
        logit_row_stride,
        num_groups,
        group_size,
        FULL,
        BY_ROWS,
        ROWS,
        ABREAST,
        GROUPS,
        SIZE,
        PART,
    )
    o_size = tl.reshape(tl.arange(0, SIZE), (1, 1, SIZE // PART, PART))
    i_group = tl.arange(0, GROUPS)[None, :, None, None]
    m_expert = (i_group < num_groups) & (o_size < group_size)
    if not FULL:
        choice = tl.where(m_expert, choice, float("-inf"))

    most, second = _two_most(choice)
    m_kept = tl.full((ROWS, GROUPS), 1, tl.int1)
    if not KEEPS_ALL:
        m_kept = rank_of(cost_of(most * 0.5 + second * 0.5), topk_group) < topk_group
    # Two of each kept group are no less than the bound: in all no fewer than top_k.
    bound = tl.min(tl.where(m_kept, second, float("inf")), axis=1)
    m_candidate = choice >= tl.where(m_kept, bound[:, None], float("inf"))[:, :, None, None]
    bit = (tl.full((1,), 1, tl.int64) << o_size).to(tl.int32)
    words = tl.sum(tl.sum(tl.where(m_candidate, bit, 0), axis=2), axis=2)
    bits = bits_of(words)
    sums = tl.cumsum(bits, axis=1)
    # No bound where a kept group has fewer than two numbers.
    num_candidates = tl.where(bound == float("-inf"), LAST, tl.max(sums, axis=1))

    o_row = tl.arange(0, ROWS)
    m_row = o_row < num_rows
    p_logits = logits + o_row.to(tl.int64) * logit_row_stride
    o_output = o_row.to(tl.int64) * top_k
    p_ids = (expert_ids + i_first * top_k) + o_output
    p_weights = (expert_weights + i_first * top_k) + o_output
    o_chosen = tl.arange(0, CHOSEN)[None, :]
    m_chosen = m_row[:, None] & (o_chosen < top_k)
    most_candidates = tl.max(num_candidates, axis=0)
    if most_candidates <= FEW:
        write_best(p_logits, bias, p_ids, p_weights, m_row, words, bits, sums, group_size, top_k, FEW)
    elif most_candidates <= MANY:
        write_best(p_logits, bias, p_ids, p_weights, m_row, words, bits, sums, group_size, top_k, MANY)
    else:
        cost = tl.where(m_expert, cost_of(tl.maximum(choice, float("-inf"))), NEVER)
        i_first_expert = i_group.to(tl.int64) * group_size
        chosen = experts_in_turn(cost, m_kept, (i_first_expert + o_size).to(tl.int32), top_k, CHOSEN)
        logit = tl.load(p_logits[:, None] + chosen, mask=m_chosen, other=0).to(tl.float32)
        score = sigmoid(logit)
        tl.store(p_ids[:, None] + o_chosen, chosen, mask=m_chosen)
        tl.store(p_weights[:, None] + o_chosen, tl.where(score == score, score, 0.0), mask=m_chosen)
    # The scores, in the order of the choices.
    tl.debug_barrier()
    score = tl.load(p_weights[:, None] + o_chosen, mask=m_chosen, other=0)
    if RENORMALIZE:
        total = tl.sum(score, axis=1)[:, None] + 1e-20
        score = tl.div_rn(score, tl.broadcast_to(total, (ROWS, CHOSEN)))
    tl.store(p_weights[:, None] + o_chosen, score * scaling_factor, mask=m_chosen)


def has_candidates(num_experts: int, num_groups: int, topk_group: int, top_k: int) -> bool:
    """Return whether a router of this shape can choose from candidates."""
    size = triton.next_power_of_2(num_experts // num_groups)
    num_padded = triton.next_power_of_2(num_groups) * size
    return size in SIZES and num_padded in EXPERTS_OF_ROW and top_k <= min(2 * topk_group, FEW.value)


def select_from_candidates(
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
    """Write what ``write_grouped_topk`` promises, for checked arguments of a shape that has candidates."""
    num_tokens, num_experts = logits.shape
    group_size = num_experts // num_groups
    groups, size = triton.next_power_of_2(num_groups), triton.next_power_of_2(group_size)
    rows, item_bytes = EXPERTS_OF_PROGRAM // (groups * size), logits.element_size()
    with torch.cuda.device(logits.get_device()):
        _select_from_candidates[(-(-num_tokens // rows),)](
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
            # With other dtypes the exchange through shared memory costs more than the loads save.
            BY_ROWS=item_bytes == bias.element_size() == 4,
            ROWS=rows,
            ABREAST=min(rows, max(1, THREADS // groups)),
            GROUPS=groups,
            SIZE=size,
            PART=min(size, LOAD_BYTES // item_bytes),
            CHOSEN=triton.next_power_of_2(top_k),
            UNIT=math.gcd(group_size, 16),
            num_warps=1,
            **early(logits.device),
        )
