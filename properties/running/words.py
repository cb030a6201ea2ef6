"""The elements of tensors as words: integers, the bits of floats, rows of bytes."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_TORCH = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
Words = npt.NDArray[Any]


def torch_dtype(name: str) -> torch.dtype:
    """Return torch's dtype for a dtype name of dialects and operations."""
    return _TORCH[name]


def poison_words(poison: int, like: Words) -> Words:
    """Return an array shaped like ``like`` in which every byte is ``poison``."""
    return np.full(like.nbytes, poison, dtype=np.uint8).view(like.dtype).reshape(like.shape)


def words_of(tensor: torch.Tensor, *, is_rows: bool) -> Words:
    """Return the elements of any tensor: integers, the bits of floats, or uint8 rows."""
    tensor = tensor.detach()
    if not is_rows:
        if tensor.is_floating_point():
            tensor = tensor.view(_BITS[tensor.element_size()])
        ints: Words = tensor.cpu().numpy().copy()
        return ints
    dense = tensor.contiguous().cpu()
    row_bytes = tensor.shape[-1] * tensor.element_size()
    found: Words = dense.view(torch.uint8).numpy().reshape(prod(tensor.shape[:-1]), row_bytes).copy()
    return found
