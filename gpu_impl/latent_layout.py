"""A view of a cache of latent rows with its two middle dimensions exchanged; never a copy."""

import torch


def latent_layout(cache: torch.Tensor) -> torch.Tensor:
    """Return the cache [num_blocks, 1, block_size, D], of any dtype, as [num_blocks, block_size, 1, D].

    The result shares the memory, the data pointer is that of the cache, and the strides are those of a new
    tensor. The cache must be contiguous, and one of the exchanged dimensions must be 1 (a cache [num_blocks,
    heads, 1, D] is right too) or the cache must have no elements. Then the view equals
    `cache.transpose(1, 2).contiguous()`.
    Launches nothing, synchronises nothing and allocates nothing, so a CUDA graph can capture it.
    Raises ValueError that names shape and strides for every other cache, also for strided ones that
    `torch.Tensor.view` accepts: consumers read dense rows.
    Rule: FastDeploy#7253.

    >>> cache = torch.arange(24).view(2, 1, 4, 3)
    >>> view = latent_layout(cache)
    >>> tuple(view.shape), view.stride(), view.data_ptr() == cache.data_ptr(), view[1, 2, 0].tolist()
    ((2, 4, 1, 3), (12, 3, 3, 1), True, [18, 19, 20])
    """
    if not isinstance(cache, torch.Tensor):
        raise ValueError(f"cache = {cache!r}, must be a tensor")
    shape, strides = tuple(cache.shape), cache.stride()
    found = f"cache.shape = {shape} with strides {strides}, must"
    if len(shape) != 4:
        raise ValueError(f"{found} have four dimensions")
    if not cache.is_contiguous():
        raise ValueError(f"{found} be contiguous")
    num_blocks, outer, inner, width = shape
    if outer != 1 and inner != 1 and cache.numel() > 0:
        raise ValueError(f"{found} have shape[1] or shape[2] = 1, or no elements")
    row = max(width, 1)
    token = row * max(outer, 1)
    dense = (token * max(inner, 1), token, row, 1)
    return cache.as_strided((num_blocks, inner, outer, width), dense)
