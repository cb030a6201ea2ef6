"""A cache held with its dimensions divided and in another order."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


@contextmanager
def reordered(cache: torch.Tensor, order: Sequence[int]) -> Iterator[torch.Tensor]:
    """Yield a dense copy whose dimension i is dimension ``order[i]`` of the cache; then copy it back."""
    held = cache.permute(*order).contiguous()
    yield held
    cache.copy_(held.permute(*(order.index(dimension) for dimension in range(len(order)))))


def in_groups(rows: torch.Tensor, dimension: int, size: int) -> torch.Tensor:
    """Return a view whose dimension is two: the groups of ``size`` elements, and the elements of a group."""
    before, after = rows.shape[:dimension], rows.shape[dimension + 1 :]
    return rows.view(*before, rows.shape[dimension] // size, size, *after)
