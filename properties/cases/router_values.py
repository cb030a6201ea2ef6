"""Draw the sizes and dtypes of a router of tokens to experts."""

from cumae.oracle import FLOAT_DTYPES
from cumae.properties.cases.draw import Draw
from cumae.properties.cases.values import MOST_SELECTED

SERVED = (
    (8, 1, 1, 2),
    (16, 1, 1, 1),
    (32, 1, 1, 4),
    (48, 1, 1, 3),
    (64, 1, 1, 6),
    (64, 1, 1, 8),
    (128, 1, 1, 1),
    (128, 1, 1, 4),
    (128, 1, 1, 6),
    (128, 1, 1, 8),
    (160, 1, 1, 8),
    (160, 8, 3, 6),
    (192, 1, 1, 8),
    (256, 1, 1, 6),
    (256, 1, 1, 8),
    (256, 8, 4, 8),
    (384, 1, 1, 8),
    (512, 1, 1, 10),
    (512, 1, 1, 22),
    (768, 1, 1, 12),
)
"""Experts, groups, groups kept and experts selected of released models."""

ROUTER_SHAPES = (
    (8, 2, 1, 2),
    (4, 2, 1, 1),
    (4, 1, 1, 3),
    (12, 3, 2, 5),
    (12, 4, 2, 2),
    (8, 4, 2, 4),
    (16, 4, 4, 4),
    (32, 8, 3, 6),
    (80, 40, 3, 5),
    (200, 1, 1, 6),
    (256, 4, 2, 8),
    (60, 6, 4, 4),
    (64, 8, 6, 8),
    *SERVED,
)
"""Those, and smaller or stranger ones: once all experts that are kept are selected."""

UNGROUPED = (16, 48, 64, 72, 96, 128, 160, 192, 256, 288, 320, 384, 512)
"""Experts of models without groups."""


def router_shape(d: Draw) -> tuple[int, int, int, int]:
    """Return the sizes of a router; many experts only for few rows."""
    if d.domain.router_shapes is None and d.choices.chance(20):
        num_experts = d.choices.pick(UNGROUPED)
        if d.num_rows * num_experts <= MOST_SELECTED:
            return num_experts, 1, 1, d.choices.pick((1, 2, 3, 4, 6, 8, 10, 12))
    if d.domain.router_shapes is None and d.choices.chance(25):
        num_groups, size = d.choices.pick((1, 2, 3, 5, 8)), d.choices.integer(2, 40)
        if d.num_rows * num_groups * size <= MOST_SELECTED:
            kept = d.choices.integer(1, num_groups)
            return num_groups * size, num_groups, kept, d.choices.integer(1, min(kept * size, 16))
    shapes = d.domain.router_shapes or ROUTER_SHAPES
    fits = [shape for shape in shapes if d.num_rows * shape[0] <= MOST_SELECTED]
    return d.choices.pick(fits or (min(shapes),))


def bias_dtype(d: Draw) -> str:
    """Return the dtype of the bias; the first one is more frequent."""
    dtypes = d.domain.among("bias_dtype", FLOAT_DTYPES)
    return str(d.choices.pick((dtypes[0], *dtypes)))
