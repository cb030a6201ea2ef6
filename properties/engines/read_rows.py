"""Views of the pages that engines read, the keys before the values, and scales that fit every engine."""

from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor
FP8: dict[str, Any] = {
    "head_format": ("fp8",),
    "key_scale_thousandths": (1000, 125),
    "value_scale_thousandths": (1000, 125),
}
"""Numbers of fp8 with scales that are powers of two: by others, compiled division may be off by one."""


class Planes(NamedTuple):
    """Keys and values of pages [blocks, elements of a block], views; the rows that they are gathered into.

    ``new_keys``, ``new_values``: [rows, heads, elements of a head].
    """

    keys: Tensor
    values: Tensor
    new_keys: Tensor
    new_values: Tensor


def planes_of(pages: Tensor, keys: Tensor, values: Tensor, num_heads: int, block_size: int) -> Planes:
    """Return the planes of pages that hold all keys before all values."""
    flat = pages.flatten(1)
    rows = [one.view(len(one), num_heads, -1) if one.numel() else one for one in (keys, values)]
    behind = block_size * (keys.shape[1] * keys.shape[2])
    return Planes(flat[:, :behind], flat[:, behind:], *rows)
