"""A cache held with its dimensions in another order."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


@contextmanager
def reordered(cache: torch.Tensor, order: Sequence[int]) -> Iterator[torch.Tensor]:
    """Yield a dense copy whose dimension i is dimension ``order[i]`` of the cache; then copy it back."""
    held = cache.permute(*order).contiguous()
    yield held
    cache.copy_(held.permute(*(order.index(dimension) for dimension in range(len(order)))))
