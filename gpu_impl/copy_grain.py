"""The unit in which rows of any dtype and stride are copied bit for bit."""

import math

import torch
import triton.language as tl

# By bytes of a grain: the widest word that fits, and the number of words.
WORDS_OF_GRAIN = {16: (tl.int64, 2), 8: (tl.int64, 1), 4: (tl.int32, 1), 2: (tl.int16, 1), 1: (tl.uint8, 1)}


def grain_bytes(*tensors: torch.Tensor) -> int:
    """Return the largest power of two up to 16 that divides every row's address and length in bytes."""
    edges = [tensor.data_ptr() for tensor in tensors]
    for tensor in tensors:
        item = tensor.element_size()
        edges.append(tensor.shape[-1] * item)
        sizes_and_strides = zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)
        edges.extend(stride * item for size, stride in sizes_and_strides if size > 1)
    return math.gcd(16, *edges)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the rows as uint8, a view of the same memory; the last dimension must be contiguous."""
    return tensor.view(torch.uint8)
