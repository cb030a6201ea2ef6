"""Writes of torch to indices that occur more than once: on a GPU any of their values may stay.

On a CPU it is the last one. With the indices turned round it is the first.
"""

from typing import Any

import torch


def turned_round(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the arguments of an operator with its indices and values from the last to the first.

    None if the order of what it writes does not matter: as for one value, for masks, or where it adds.
    """
    if named or not isinstance(arguments[0], torch.Tensor) or arguments[0].device.type != "cpu":
        return None
    if name in ("index_put", "index_put_"):
        return _turned_put(*arguments)
    if name in ("scatter", "scatter_") and len(arguments) == 4:
        own, axis, index, values = arguments
        if isinstance(values, torch.Tensor) and index.dim():
            within = values[tuple([slice(size) for size in index.shape])]
            return own, axis, index.flip(axis), within.flip(axis)
    if name in ("index_copy", "index_copy_") and len(arguments) == 4:
        own, axis, index, values = arguments
        if values.dim():
            return own, axis, index.flip(0), values.flip(axis)
    return None


NAMES = frozenset([f"{name}{end}" for name in ("index_put", "scatter", "index_copy") for end in ("", "_")])
"""The operators that `turned_round` knows."""


def _turned_put(
    own: torch.Tensor, indices: list[torch.Tensor | None], values: torch.Tensor, adds: bool = False
) -> tuple[Any, ...] | None:
    given = [index for index in indices if index is not None]
    first = next((axis for axis, index in enumerate(indices) if index is not None), 0)
    in_a_row = all(index is not None for index in indices[first : first + len(given)])
    is_one = values.numel() == 1
    if adds or is_one or not in_a_row or any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return None
    behind = own.dim() - first - len(given)
    axes = range(1, 1 + max(index.dim() for index in given))
    turned = [index if index is None else index.flip([*range(index.dim())]) for index in indices]
    of_values = [-behind - axis for axis in axes if values.dim() >= behind + axis]
    return own, turned, values.flip(of_values), adds
