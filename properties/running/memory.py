"""Tensors between guard words, over poison; and tensors whose addresses span more memory than there is."""

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cumae.properties.dialects import Ints, Rows
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.device import Device

GUARD_BYTES = 8192
SPARSE_BYTES = 2**28
GUARD_PATTERN = 0x5A
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named from Python 3.13 on; Linux's value
_TORCH = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
Words = npt.NDArray[Any]


@dataclass(slots=True)
class Buffer:
    """One argument tensor and the memory it lies in.

    ``storage``: all its bytes, guards included; ``before``: their content before the launch, None
    where the span is too large to keep and only elements are looked at.
    """

    name: str
    tensor: torch.Tensor
    storage: torch.Tensor
    before: npt.NDArray[np.uint8] | None

    def words(self) -> Words:
        """Return the elements now: integers, or uint8 rows for tensors of rows."""
        return _words(self.tensor)

    def damage(self, *, elements_too: bool) -> tuple[int, str] | None:
        """Return the first byte changed outside the elements (or anywhere), as (offset in bytes, where)."""
        if self.before is None:
            return None
        after = self.storage.cpu().numpy()
        if np.array_equal(after, self.before):
            return None
        changed = after != self.before
        if not elements_too:
            _element_bytes(changed, self.tensor)[...] = False
        where = np.flatnonzero(changed)
        if not len(where):
            return None
        size = len(changed) - 2 * GUARD_BYTES
        outside = [int(i) for i in where if not 0 <= i - GUARD_BYTES < size]
        first = (outside[0] if outside else int(where[0])) - GUARD_BYTES
        if first < 0:
            return first, f"{-first} bytes before its start"
        return first, f"{first - size} bytes behind its end" if first >= size else f"at byte {first}"


def hold(name: str, held: Ints | Rows, device: Device) -> Buffer:
    """Return an input as a tensor on the device, guard words around it and in the gaps of its strides."""
    if isinstance(held, Ints):
        buffer, elements = _allocate(name, held.shape, held.dtype, held.strides, device, GUARD_PATTERN)
        values = torch.from_numpy(held.values).to(elements.dtype)
        elements.copy_(values)
        return _uploaded(buffer, elements, device)
    buffer, elements = _allocate(name, held.shape, held.dtype, held.strides, device, held.fill)
    if len(held.live):
        content = torch.from_numpy(held.content).view(elements.dtype).to(elements.device)
        places = tuple(
            torch.from_numpy(held.live[:, d].copy()).to(elements.device) for d in range(held.live.shape[1])
        )
        elements[places] = content
    return _uploaded(buffer, elements, device)


def poisoned(
    name: str, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...], device: Device, poison: int
) -> Buffer:
    """Return an output buffer in which every byte, guards included, is ``poison``."""
    buffer, elements = _allocate(name, shape, dtype, strides, device, poison)
    if buffer.before is None:
        elements.copy_(torch.full((elements.element_size(),), poison, dtype=torch.uint8).view(elements.dtype))
    return _uploaded(buffer, elements, device)


def poison_words(poison: int, like: Words) -> Words:
    """Return an array shaped like ``like`` in which every byte is ``poison``."""
    return np.full(like.nbytes, poison, dtype=np.uint8).view(like.dtype).reshape(like.shape)


def _allocate(
    name: str, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...], device: Device, fill: int
) -> tuple[Buffer, torch.Tensor]:
    """Return the buffer on the host (a large one where it stays) and its elements."""
    item = ITEM_BYTES[dtype]
    span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    size = 2 * GUARD_BYTES + span * item
    if size > SPARSE_BYTES:
        storage = _large(size, device)
        before = None
    else:
        before = np.full(size, fill, dtype=np.uint8)
        storage = torch.from_numpy(before)
    elements = storage.view(_TORCH[dtype]).as_strided(shape, strides, GUARD_BYTES // item)
    return Buffer(name, elements, storage, before), elements


def _large(size: int, device: Device) -> torch.Tensor:
    """Return ``size`` bytes: real ones on a GPU, on the CPU a mapping that is backed where it is touched."""
    size += -size % 8
    if device == "cuda":
        return torch.empty(size, dtype=torch.uint8, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, size, flags), dtype=torch.uint8)


def _uploaded(buffer: Buffer, elements: torch.Tensor, device: Device) -> Buffer:
    """Move a small buffer to the device; the host bytes stay as what was there before."""
    if buffer.before is None:
        return buffer
    storage = buffer.storage.to(device, copy=True)
    tensor = storage.view(elements.dtype).as_strided(
        elements.shape, elements.stride(), elements.storage_offset()
    )
    return Buffer(buffer.name, tensor, storage, buffer.before)


def _words(tensor: torch.Tensor) -> Words:
    if tensor.dtype in (torch.int32, torch.int64, torch.bool):
        ints: Words = tensor.cpu().numpy().copy()
        return ints
    dense = tensor.contiguous().cpu()
    row_bytes = tensor.shape[-1] * tensor.element_size()
    found: Words = dense.view(torch.uint8).numpy().reshape(*tensor.shape[:-1], row_bytes).copy()
    return found


def _element_bytes(storage: npt.NDArray[Any], tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return the bytes of the tensor's elements as a view of a byte array laid out like its storage."""
    item = tensor.element_size()
    start = tensor.storage_offset() * item
    shape = (*tensor.shape, item)
    strides = (*(s * item for s in tensor.stride()), 1)
    return np.lib.stride_tricks.as_strided(storage[start:], shape, strides)
