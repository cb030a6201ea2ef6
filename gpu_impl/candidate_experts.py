"""Candidates of a kernel's rows: experts as bits, listed, ranked by their choices, and the best written."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# Choices this near to 0 count as 0, so that the difference of two others is no denormal.
NEAR_ZERO = tl.constexpr(2.0**-100)
LOWEST = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def sigmoid(logit: tl.tensor) -> tl.tensor:
    """Return the sigmoid in fp32: 1 for +inf, 0 for -inf."""
    return 1.0 / (1.0 + tl.exp2(logit * -LOG2_E))


@triton.jit
def root_of_sigmoid(logit: tl.tensor) -> tl.tensor:
    """Return the square root of the sigmoid, whose square takes fewer instructions than a division.

    The square is off by at most 7 * 2**-24: 4.3 for a root good to 22.9 bits, and 2.5 for what is under it.
    """
    return tl.rsqrt(1.0 + tl.exp2(logit * -LOG2_E))


@triton.jit
def _experts_of_bits(
    words: tl.tensor, bits: tl.tensor, sums: tl.tensor, group_size: tl.tensor, SLOTS: tl.constexpr
) -> tl.tensor:
    """Return the experts [rows, slots] of the first bits of a row's words; any number past the last.

    bits: how many each word has; sums: how many it and those before it have; all [rows, groups].
    """
    o_slot = tl.arange(0, SLOTS)
    m_before = tl.trans(sums)[:, :, None] <= o_slot[None, None, :]
    i_group = tl.minimum(tl.sum(m_before.to(tl.int32), axis=0), words.shape[1] - 1)
    num_before = o_slot[None, :] - tl.gather(sums - bits, i_group, axis=1)
    word = tl.gather(words, i_group, axis=1)
    for _ in range(1, tl.max(tl.max(bits, axis=1), axis=0)):
        word = tl.where(num_before > 0, word & tl.sub(word, 1, sanitize_overflow=False), word)
        num_before -= 1
    lowest = word & tl.sub(0, word, sanitize_overflow=False)
    exponent = lowest.to(tl.uint32, bitcast=True).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    return (i_group.to(tl.int64) * group_size).to(tl.int32) + exponent - 127


@triton.jit
def _rank_of_choices(choice: tl.tensor) -> tl.tensor:
    """Return how many choices [slots, rows] go before each, of equal ones the earlier, as [rows, slots].

    The choices are finite, and 0 or at least NEAR_ZERO in size.
    """
    o_slot = tl.arange(0, choice.shape[0])
    # [before, rows, after]. The sign bit of a difference tells the lesser. Equal ones differ by +0, to which
    # their places are added; the bits of any other difference are too far from a change of sign.
    further = (tl.trans(choice)[None, :, :] - choice[:, :, None]).to(tl.int32, bitcast=True)
    o_further = o_slot[:, None, None] - o_slot[None, None, :]
    m_before = tl.add(further, o_further, sanitize_overflow=False).to(tl.uint32, bitcast=True) >> 31
    return tl.sum(m_before.to(tl.int32), axis=0)


@triton.jit
def write_best(
    logits: tl.tensor,
    bias: tl.tensor,
    expert_ids: tl.tensor,
    expert_weights: tl.tensor,
    m_row: tl.tensor,
    words: tl.tensor,
    bits: tl.tensor,
    sums: tl.tensor,
    group_size: tl.tensor,
    top_k: tl.tensor,
    SLOTS: tl.constexpr,
) -> None:
    """Write the ids of each row's top_k best candidates, and their scores in place of weights.

    logits, expert_ids, expert_weights [rows] are addresses. A row has at least top_k candidates, all finite.
    """
    expert = tl.trans(_experts_of_bits(words, bits, sums, group_size, SLOTS))
    m_slot = m_row[None, :] & (tl.arange(0, SLOTS)[:, None] < tl.max(sums, axis=1)[None, :])
    expert = tl.where(m_slot, expert, 0)
    logit = tl.load(logits[None, :] + expert, mask=m_slot, other=0).to(tl.float32)
    root = root_of_sigmoid(logit)
    choice = root * root + tl.load(bias + expert, mask=m_slot, other=0).to(tl.float32)
    choice = tl.where(tl.abs(choice) < NEAR_ZERO, 0.0, choice)
    # Slots past the last candidate rank behind it.
    rank = tl.trans(_rank_of_choices(tl.where(m_slot, choice, LOWEST)))
    m_best = m_slot & (rank < top_k)
    tl.store(expert_ids[None, :] + rank, expert, mask=m_best)
    tl.store(expert_weights[None, :] + rank, sigmoid(logit), mask=m_best)
