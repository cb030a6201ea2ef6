"""The effect of bf16 logits or biases on a router: route the rows twice, in float64, and compare."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CHUNK = 10_000
SCALE = 2.5


class Shape(NamedTuple):
    """The sizes of a router: experts, groups, kept groups, selected experts."""

    num_experts: int
    num_groups: int
    topk_group: int
    top_k: int


class Routed(NamedTuple):
    """Routed rows: kept groups [n, G] and selected experts [n, E] as booleans, choices and weights [n, E]."""

    kept: npt.NDArray[np.bool_]
    selected: npt.NDArray[np.bool_]
    choices: Array
    weights: Array


Draw = Callable[[np.random.Generator, int, int], Array]
DEEPSEEK_V3 = Shape(256, 8, 4, 8)
ONE_GROUP = Shape(256, 1, 1, 8)
STORED = {"logits": (True, False), "bias": (False, True), "logits and bias": (True, True)}


def _normal(mean: Array | float, width: float) -> Draw:
    """Return a function that draws normal logits around one mean, or around a mean for each expert."""
    return lambda random, rows, experts: mean + width * random.standard_normal((rows, experts))


_RANDOM = np.random.default_rng(1)
_BIASES = _RANDOM.uniform(-0.1, 0.1, 256)
_POPULAR = -3 + _RANDOM.standard_normal(256)
# Biases balance the popularity of experts, within the range measured on GLM-5.2 (sglang#31213).
_MAKE_UP = np.clip(7.063 - 1 / (1 + np.exp(-_POPULAR)), 6.817, 7.063)
DISTRIBUTIONS: Mapping[str, tuple[Shape, Draw, Array]] = {
    "logits of width 1, biases within 0.1": (DEEPSEEK_V3, _normal(0, 1), _BIASES),
    "logits of width 3, biases within 0.1": (DEEPSEEK_V3, _normal(0, 3), _BIASES),
    "sparse logits, biases within 0.1": (DEEPSEEK_V3, _normal(_POPULAR, 1.5), _BIASES),
    "sparse logits, biases 6.817 to 7.063": (ONE_GROUP, _normal(_POPULAR, 1), _MAKE_UP),
}


def to_fp32(values: Array) -> Array:
    """Return the nearest fp32 numbers."""
    return values.astype(np.float32).astype(np.float64)


def to_bf16(values: Array) -> Array:
    """Return the nearest bf16 numbers, ties to even; values are fp32 numbers already.

    >>> to_bf16(np.array([7.0, 7.01, 7.03]))
    array([7.     , 7.     , 7.03125])
    """
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    found: Array = rounded.view(np.float32).astype(np.float64)
    return found


def route(logits: Array, bias: Array, shape: Shape) -> Routed:
    """Return the ideal selection of each row; ties go to the lower index."""
    rows, size = len(logits), shape.num_experts // shape.num_groups
    scores = 1 / (1 + np.exp(-logits))
    choices = scores + bias
    grouped = choices.reshape(rows, shape.num_groups, size)
    totals = np.partition(grouped, size - 2, axis=2)[:, :, -2:].sum(axis=2)
    kept = _first(totals, shape.topk_group)
    selected = _first(np.where(np.repeat(kept, size, axis=1), choices, -np.inf), shape.top_k)
    chosen = np.where(selected, scores, 0.0)
    return Routed(kept, selected, choices, SCALE * chosen / (chosen.sum(axis=1, keepdims=True) + 1e-20))


def _first(values: Array, count: int) -> npt.NDArray[np.bool_]:
    """Return which elements of each row are its ``count`` largest."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    first = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(first, order, True, axis=1)
    return first


def compare(name: str, num_rows: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield for each choice of bf16 tensors the differences from fp32 on the same rows."""
    shape, draw, biases = DISTRIBUTIONS[name]
    bias = to_fp32(biases)
    random = np.random.default_rng(seed)
    found: dict[str, list[Array]] = {stored: [] for stored in STORED}
    for start in range(0, num_rows, CHUNK):
        logits = to_fp32(draw(random, min(CHUNK, num_rows - start), shape.num_experts))
        exact = route(logits, bias, shape)
        for stored, (of_logits, of_bias) in STORED.items():
            other = route(to_bf16(logits) if of_logits else logits, to_bf16(bias) if of_bias else bias, shape)
            found[stored].append(_differences(exact, other, shape))
    for stored, parts in found.items():
        yield {"inputs": name, "shape": list(shape), "in_bf16": stored, **_told(np.concatenate(parts))}


def _differences(exact: Routed, other: Routed, shape: Shape) -> Array:
    """Return for each row: groups and experts changed, gap, margin, change of the weights, and weight moved.

    The gap is how much larger the exact choice of the best expert lost is than that of the worst one gained;
    the margin is the exact gap between the last expert selected and the first that is not.
    """
    size = shape.num_experts // shape.num_groups
    lost, gained = exact.selected & ~other.selected, other.selected & ~exact.selected
    in_kept = np.repeat(exact.kept, size, axis=1) & ~exact.selected
    lowest = np.where(exact.selected, exact.choices, np.inf).min(axis=1)
    best_lost = np.where(lost, exact.choices, -np.inf).max(axis=1)
    worst_gained = np.where(gained, exact.choices, np.inf).min(axis=1)
    columns = (
        (exact.kept & ~other.kept).sum(axis=1),
        lost.sum(axis=1),
        np.where(lost.any(axis=1), best_lost - worst_gained, 0.0),
        lowest - np.where(in_kept, exact.choices, -np.inf).max(axis=1),
        np.abs(exact.weights - other.weights).max(axis=1) / SCALE,
        np.where(lost, exact.weights, 0.0).sum(axis=1) / SCALE,
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _told(rows: Array) -> dict[str, Any]:
    """Return the figures of all rows."""
    changed, same_groups = rows[:, 1] > 0, rows[:, 0] == 0
    experts = rows[changed & same_groups]
    return {
        "rows": len(rows),
        "rows_with_other_experts": int(changed.sum()),
        "rows_with_other_groups": int((rows[:, 0] > 0).sum()),
        "experts_changed": int(rows[:, 1].sum()),
        "most_experts_changed_in_a_row": int(rows[:, 1].max()),
        "gap_of_experts_exchanged": _spread(experts[:, 2]),
        "margin_of_rows_changed": _spread(experts[:, 3]),
        "margin_of_all_rows": _spread(rows[:, 3]),
        "weight_of_experts_lost": _spread(rows[changed, 5]),
        "weight_change_where_experts_stay": _spread(rows[~changed, 4]),
    }


def _spread(values: Array) -> dict[str, float]:
    """Return median, 99th percentile and maximum, 0 where there is no value."""
    values = values if len(values) else np.zeros(1)
    median, high, most = np.percentile(values, [50, 99, 100])
    return {"median": float(f"{median:.3g}"), "p99": float(f"{high:.3g}"), "max": float(f"{most:.3g}")}
