"""Rows of uint32 costs in a kernel: costs of choices, the least of them, ranks, and sets of experts as bits.

Costs are [rows, groups, size / next, next], and no two of these axes become one. Triton 3.6 reduces an axis
right only if the bits of a thread's index that move along it are neighbours; of two axes merged they need not
be.
"""

import triton
import triton.language as tl

# The most entries that are ranked by comparing all pairs, and not one after the other.
MAX_IN_PAIRS = tl.constexpr(32)
# The most experts whose bits are one word, an int32.
WORD = tl.constexpr(32)
NEVER = tl.constexpr(2**32 - 1)
LAST = tl.constexpr(2**31 - 1)


@triton.jit
def cost_of(choice: tl.tensor) -> tl.tensor:
    """Return uint32 numbers in the order of the choices, the largest choice first; all below NEVER."""
    bits = choice.to(tl.int32, bitcast=True)
    return (bits ^ (~(bits >> 31) & LAST)).to(tl.uint32, bitcast=True)


@triton.jit
def choice_of(cost: tl.tensor) -> tl.tensor:
    """Return the choice with this cost."""
    bits = cost.to(tl.int32, bitcast=True)
    return (bits ^ (~(bits >> 31) & LAST)).to(tl.float32, bitcast=True)


@triton.jit
def rank_of(cost: tl.tensor, num_ranked: tl.tensor) -> tl.tensor:
    """Return how many costs of a row go before each, of equal ones the earlier; right below num_ranked."""
    o_column = tl.arange(0, cost.shape[1])
    if cost.shape[1] <= MAX_IN_PAIRS:
        # [before, rows, after]: by this order of the axes a thread has all that may go before.
        m_earlier = o_column[:, None, None] < o_column[None, None, :]
        bound = cost[None, :, :] + m_earlier.to(tl.uint32)
        rank = tl.sum((tl.trans(cost)[:, :, None] < bound).to(tl.int32), axis=0)
    else:
        rank = tl.full(cost.shape, LAST, tl.int32)
        for i_rank in range(0, num_ranked):
            m_least = cost == tl.min(cost, axis=1)[:, None]
            first = tl.min(tl.where(m_least, o_column[None, :], LAST), axis=1)[:, None]
            rank = tl.where(o_column[None, :] == first, i_rank, rank)
            cost = tl.where(o_column[None, :] == first, NEVER, cost)
    return rank


@triton.jit
def words_of(m_expert: tl.tensor) -> tl.tensor:
    """Return the mask [rows, groups, size / next, next] as int32 words [rows, groups, parts]."""
    NEXT: tl.constexpr = m_expert.shape[3]
    STEPS: tl.constexpr = m_expert.shape[2] if m_expert.shape[2] * NEXT < WORD else WORD // NEXT
    PARTS: tl.constexpr = m_expert.shape[2] // STEPS
    bit = tl.full((NEXT,), 1, tl.int32) << tl.arange(0, NEXT)
    words = tl.sum(tl.where(m_expert, bit[None, None, None, :], 0), axis=3)
    words = tl.reshape(words, (m_expert.shape[0], m_expert.shape[1], PARTS, STEPS))
    return tl.sum(words << (tl.arange(0, STEPS) * NEXT)[None, None, None, :], axis=3)


@triton.jit
def first_experts(words: tl.tensor, o_word: tl.tensor) -> tl.tensor:
    """Return the expert of each word's lowest bit, LAST for none; o_word: the experts of bit 0."""
    lowest = words & tl.sub(0, words, sanitize_overflow=False)
    exponent = lowest.to(tl.uint32, bitcast=True).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    return tl.where(words != 0, o_word + exponent - 127, LAST)


@triton.jit
def bits_of(words: tl.tensor) -> tl.tensor:
    """Return the number of bits in each word."""
    bits = words.to(tl.uint32, bitcast=True)
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    # LLVM makes one instruction of this form.
    return (tl.mul(bits, 0x01010101, sanitize_overflow=False) >> 24).to(tl.int32)


@triton.jit
def num_bits(words: tl.tensor) -> tl.tensor:
    """Return the number of bits in each row of [rows, groups, parts]."""
    return tl.sum(tl.sum(bits_of(words), axis=2), axis=1)


@triton.jit
def _pairs(x: tl.tensor) -> tl.tensor:
    """Return the neighbours of the last axis longer than 1, of four, as pairs of a fifth."""
    if x.shape[3] > 1:
        pairs = tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2], x.shape[3] // 2, 2))
    else:
        pairs = tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2] // 2, 1, 2))
    return pairs


@triton.jit
def two_least(cost: tl.tensor) -> tl.tensor:
    """Return the least and the second least of each group [rows, groups]."""
    pairs = _pairs(cost)
    least, second = tl.min(pairs, axis=4), tl.max(pairs, axis=4)
    for _ in tl.static_range(10):
        if least.shape[2] * least.shape[3] > 1:
            pairs = _pairs(least)
            least = tl.min(pairs, axis=4)
            second = tl.minimum(tl.max(pairs, axis=4), tl.min(_pairs(second), axis=4))
    return tl.min(tl.min(least, axis=3), axis=2), tl.min(tl.min(second, axis=3), axis=2)


@triton.jit
def _least_of_rows(x: tl.tensor) -> tl.tensor:
    """Return the least of each row of [rows, groups, size / next, next]."""
    if x.shape[0] == 1:
        least = tl.full((1,), tl.min(x), x.dtype)
    else:
        least = tl.min(tl.min(tl.min(x, axis=3), axis=2), axis=1)
    return least


@triton.jit
def experts_in_turn(
    cost: tl.tensor, m_kept: tl.tensor, o_expert: tl.tensor, top_k: tl.tensor, CHOSEN: tl.constexpr
) -> tl.tensor:
    """Return the top_k experts of least cost in the kept groups [rows, chosen], the least first."""
    cost = tl.where(m_kept[:, :, None, None], cost, NEVER)
    o_chosen = tl.arange(0, CHOSEN)[None, :]
    chosen = tl.full((cost.shape[0], CHOSEN), 0, tl.int32)
    for i_chosen in range(0, top_k):
        m_least = cost == _least_of_rows(cost)[:, None, None, None]
        first = _least_of_rows(tl.where(m_least, o_expert, LAST))
        chosen = tl.where(o_chosen == i_chosen, first[:, None], chosen)
        cost = tl.where(o_expert == first[:, None, None, None], NEVER, cost)
    return chosen


@triton.jit
def limit_of(cost: tl.tensor, m_kept: tl.tensor, top_k: tl.tensor) -> tl.tensor:
    """Return the top_k-th least of the different costs in the kept groups, or the largest of fewer."""
    limit = tl.full((cost.shape[0],), 0, tl.uint32)
    next = limit
    for _ in range(0, top_k):
        # A cost below the next one wraps, and is the least only if no other is left.
        step = tl.sub(cost, next[:, None, None, None], sanitize_overflow=False)
        step = tl.where(m_kept, tl.min(tl.min(step, axis=3), axis=2), NEVER)
        step = tl.min(step, axis=1)
        limit = tl.maximum(limit, tl.add(next, step, sanitize_overflow=False))
        next = tl.add(limit, 1, sanitize_overflow=False)
    return limit
