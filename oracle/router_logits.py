"""Logits and biases of a router, as functions of a kind, a seed and the slot of the token."""

from collections.abc import Sequence
from functools import lru_cache
from math import copysign, inf, nan
from random import Random
from struct import Struct
from typing import Literal

from cumae.oracle.grouped_topk import rounded_to_fp32, sigmoid

LogitsKind = Literal[
    "random",
    "equal",
    "ties",
    "near_ties",
    "close_biases",
    "negative",
    "huge_and_tiny",
    "nan_and_inf",
    "zero_bias",
    "large_biases",
    "low_biases",
    "wide",
    "repeated",
    "clustered",
]
LOGITS_KINDS: tuple[LogitsKind, ...] = (
    "random",
    "equal",
    "ties",
    "near_ties",
    "close_biases",
    "negative",
    "huge_and_tiny",
    "nan_and_inf",
    "zero_bias",
    "large_biases",
    "low_biases",
    "wide",
    "repeated",
    "clustered",
)
BiasKind = Literal["as_logits", "zero", "equal", "negative", "low", "very_low", "few_far"]
BIAS_KINDS: tuple[BiasKind, ...] = (
    "as_logits",
    "zero",
    "equal",
    "negative",
    "low",
    "very_low",
    "few_far",
)
DIFFERENT = 61
"""The rows of logits of the kind ``repeated``: a prime number, so that equal ones lie in different places."""
FloatDtype = Literal["fp32", "bf16"]
FLOAT_DTYPES: tuple[FloatDtype, ...] = ("fp32", "bf16")
_FP32, _BITS = Struct("<f"), Struct("<I")
_BIASES = {
    "negative": (-2.5, 1.0),
    "large_biases": (13.0, 2.0),
    "low_biases": (-12.0, 2.0),
    "low": (-12.0, 2.0),
    "very_low": (-1.4, 0.3),
}
"""The least bias, and the width of the range; of ``very_low``, in units of one of these."""
_UNITS = (1e4, 1e4, 1e10)
_OF_ALL = (0.125, -1.0, -2.5, 3.0)
"""Biases that all experts have together."""
_FAR_BIASES, _FAR_OF = (1e4, 1e4, 1e4, 1e9, 8e37), 5
"""How far the biases of a few experts lie from 0, the last one almost as far as is valid, and of how many
experts one has such a bias."""
_CLUSTERS, _BELOW = (4, 8, 16, 32, 64, 128), 8.0
"""How many neighbours are the best experts, or how far apart they are; by how much other logits are less."""
_FAR = (0.0, -0.0, 1e-45, -1e-38, 1e-30, 16.6, -16.6, 17.4, 88.0, -88.0, 104.0, -104.0, 1e30, -3.3e38, 3.3e38)


def router_bias(
    kind: LogitsKind, seed: int, num_experts: int, dtype: FloatDtype, bias_kind: BiasKind = "as_logits"
) -> list[float]:
    """Return the bias of each expert, a number of ``dtype``: the kind of the logits chooses it, or its own.

    >>> router_bias("close_biases", 0, 4, "fp32")
    [7.010000228881836, 7.0, 7.0, 7.0]
    >>> router_bias("nan_and_inf", 0, 3, "fp32", "equal")
    [-2.5, -2.5, -2.5]
    """
    if bias_kind != "as_logits":
        return _own_bias(bias_kind, seed, num_experts, dtype)
    draw = Random(f"{kind} {seed} bias")
    values: dict[str, tuple[float, ...]] = {
        "equal": (0.125,),
        "ties": (0.0, 0.25),
        "close_biases": (7.0, 7.01),
        "zero_bias": (0.0,),
    }
    if kind == "near_ties":
        # At its center each expert's choice is almost 1: the bias is 1 minus the score, or a neighbour.
        shorts = (1 - sigmoid(center) for center in _centers(seed, num_experts))
        return [as_stored(_moved(rounded_to_fp32(short), draw.randrange(-1, 2)), dtype) for short in shorts]
    if kind in values:
        return [as_stored(draw.choice(values[kind]), dtype) for _ in range(num_experts)]
    least, width = _BIASES.get(kind, (-0.1, 0.2))
    return [as_stored(least + width * draw.random(), dtype) for _ in range(num_experts)]


def _own_bias(kind: BiasKind, seed: int, num_experts: int, dtype: FloatDtype) -> list[float]:
    """Return biases of a kind of their own."""
    draw = Random(f"{seed} bias of its own")
    if kind in ("zero", "equal"):
        return [as_stored(draw.choice(_OF_ALL) if kind == "equal" else 0.0, dtype)] * num_experts
    least, width = _BIASES.get(kind, (-0.1, 0.2))
    unit = draw.choice(_UNITS) if kind == "very_low" else 1.0
    biases = [unit * (least + width * draw.random()) for _ in range(num_experts)]
    if kind == "few_far":
        far = draw.choice(_FAR_BIASES)
        biases = [draw.choice((far, -far)) if draw.randrange(_FAR_OF) == 0 else bias for bias in biases]
    return [as_stored(bias, dtype) for bias in biases]


def _cluster(draw: Random, num_experts: int) -> range:
    """Return experts that are neighbours, or of which each is as far from the next."""
    size, first = draw.choice(_CLUSTERS), draw.randrange(num_experts)
    if draw.randrange(2):
        return range(first % size, num_experts, size)
    start = first // size * size
    return range(start, min(start + size, num_experts))


def router_logits(
    kind: LogitsKind, seed: int, place: int, num_experts: int, dtype: FloatDtype
) -> list[float]:
    """Return the logits of one token, numbers of ``dtype``.

    ``near_ties``: choices that differ by a few rounding units, among choices far above and below.
    ``repeated``: of so few tokens that thousands of them are quickly judged. ``clustered``: the best experts
    of a token are neighbours, or equally far apart.

    >>> router_logits("equal", 0, 7, 3, "bf16") == router_logits("equal", 0, 7, 3, "bf16")
    True
    """
    if kind == "repeated":
        return _random_row(seed, place % DIFFERENT, num_experts, dtype)
    draw = Random(f"{kind} {seed} {place}")
    same = 6 * draw.random() - 3
    if kind == "near_ties":
        return [_near(draw, center, dtype) for center in _centers(seed, num_experts)]
    if kind in ("equal", "close_biases"):
        return [as_stored(same, dtype)] * num_experts
    if kind == "ties":
        few = [as_stored(same + step, dtype) for step in (0.0, 0.5, 1.0)]
        return [draw.choice(few) for _ in range(num_experts)]
    if kind == "huge_and_tiny":
        return [as_stored(draw.choice(_FAR), dtype) for _ in range(num_experts)]
    width = 10.0 if kind == "wide" else 2.5
    row = [
        as_stored(width * (draw.random() + draw.random() + draw.random() - 1.5), dtype)
        for _ in range(num_experts)
    ]
    if kind == "clustered":
        best = _cluster(draw, num_experts)
        row = [logit if i in best else as_stored(logit - _BELOW, dtype) for i, logit in enumerate(row)]
    if kind == "nan_and_inf":
        most = draw.choice((2, 8, 8, 8))
        odd = (nan, nan, inf, -inf)
        row = [draw.choice(odd) if draw.randrange(most) == 0 else value for value in row]
    return row


@lru_cache(maxsize=2 * DIFFERENT)
def _random_row(seed: int, place: int, num_experts: int, dtype: FloatDtype) -> list[float]:
    """Return the logits of a token of the kind ``random``, which its callers do not change."""
    return router_logits("random", seed, place, num_experts, dtype)


def as_stored(value: float, dtype: FloatDtype) -> float:
    """Return the number of ``dtype`` nearest to ``value``.

    >>> as_stored(7.01, "bf16"), as_stored(-0.1, "fp32")
    (7.0, -0.10000000149011612)
    """
    if dtype == "fp32":
        return rounded_to_fp32(value)
    bits: int = _BITS.unpack(_FP32.pack(value))[0]
    bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    stored: float = _FP32.unpack(_BITS.pack(bits))[0]
    return stored


def _centers(seed: int, num_experts: int) -> Sequence[float]:
    """Return a logit for each expert, around which its logits lie."""
    draw = Random(f"{seed} centers")
    return [
        copysign(as_stored(0.25 + 2 * draw.random(), "bf16"), draw.random() - 0.5) for _ in range(num_experts)
    ]


def _near(draw: Random, center: float, dtype: FloatDtype) -> float:
    """Return a logit that makes a near tie or, less often, one far from it."""
    far = draw.choice((0.0, 0.0, 0.0, 1.0, -1.0))
    if far:
        return as_stored(center + far, dtype)
    return center if dtype == "bf16" else _moved(center, draw.randrange(-2, 3))


def _moved(value: float, steps: int) -> float:
    """Return the fp32 number ``steps`` steps further from zero."""
    bits: int = _BITS.unpack(_FP32.pack(value))[0]
    moved: float = _FP32.unpack(_BITS.pack(bits + steps))[0]
    return moved
