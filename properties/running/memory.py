"""Poisoned tensors between guard words, and tensors whose strides span more memory than the machine has."""

import mmap

import numpy as np
import torch

from cumae.properties.dialects import Floats, Ints, Rows
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.buffer import GUARD_BYTES, Buffer
from cumae.properties.running.device import Device
from cumae.properties.running.words import Words, torch_dtype

SPARSE_BYTES = 2**28
GUARD_PATTERN = 0x5A
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named from Python 3.13 on; Linux's value
_NUMPY = {"bool": np.bool_, "uint8": np.uint8, "int32": np.int32, "int64": np.int64}


def hold(
    name: str, held: Ints | Rows | Floats, device: Device, offset: int = 0, guard: int = GUARD_BYTES
) -> Buffer:
    """Return an input's buffer with guard words around it and in the gaps of its strides.

    ``offset``: elements by which it begins later than at an aligned address; ``guard``: bytes of guard words.
    """
    rows = isinstance(held, Rows)
    fill = held.fill if isinstance(held, Rows) else GUARD_PATTERN
    buffer = _allocate(name, held.shape, held.dtype, held.strides, rows, device, fill, offset, guard)
    if buffer.before is not None and isinstance(held, Ints):
        if buffer.is_dense:
            stop = len(buffer.before) - guard
            integers: Words = buffer.before[buffer.lead : stop].view(_NUMPY[held.dtype]).reshape(held.shape)
        else:
            integers = buffer.elements(buffer.before).view(_NUMPY[held.dtype])[..., 0]
        integers[..., : held.values.shape[-1]] = held.values
        return buffer
    elements = _elements_of(buffer)
    if not isinstance(held, Rows):
        elements[..., : held.values.shape[-1]].copy_(torch.from_numpy(held.values))
    elif held.content.size:
        content = torch.from_numpy(held.content).view(elements.dtype).to(elements.device)
        columns = (torch.from_numpy(held.live[:, d].copy()) for d in range(held.live.shape[1]))
        elements[tuple(column.to(elements.device) for column in columns)] = content
    return buffer


def poisoned(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    strides: tuple[int, ...],
    is_rows: bool,
    device: Device,
    poison: int,
    offset: int = 0,
    guard: int = GUARD_BYTES,
) -> Buffer:
    """Return an output's buffer in which every byte, guards included, is ``poison``."""
    buffer = _allocate(name, shape, dtype, strides, is_rows, device, poison, offset, guard)
    if buffer.before is None:
        elements = _elements_of(buffer)
        pattern = torch.full((elements.element_size(),), poison, dtype=torch.uint8).view(elements.dtype)
        elements.copy_(pattern.to(elements.device))
    return buffer


def _allocate(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    strides: tuple[int, ...],
    is_rows: bool,
    device: Device,
    fill: int,
    offset: int,
    guard: int,
) -> Buffer:
    """Return the buffer: on the host, or on the device if it is large."""
    span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    lead = guard + offset * ITEM_BYTES[dtype]
    size = lead + span * ITEM_BYTES[dtype] + guard
    if size > SPARSE_BYTES:
        return Buffer(name, dtype, shape, strides, None, is_rows, lead, _large(size, device), guard=guard)
    content = np.empty(size, dtype=np.uint8)
    content.fill(fill)
    return Buffer(name, dtype, shape, strides, content, is_rows, lead, guard=guard)


def _elements_of(buffer: Buffer) -> torch.Tensor:
    """Return the elements before the call: on the host, or on the device for a large buffer."""
    memory = torch.from_numpy(buffer.before) if buffer.before is not None else buffer.large
    assert memory is not None
    return view_of(memory, 0, buffer)


def view_of(storage: torch.Tensor, start: int, buffer: Buffer) -> torch.Tensor:
    """Return the elements of a buffer that lies in ``storage`` from byte ``start``, guards included."""
    item, size = ITEM_BYTES[buffer.dtype], storage.numel()
    whole = (storage[: size // item * item] if size % item else storage).view(torch_dtype(buffer.dtype))
    return whole.as_strided(buffer.shape, buffer.strides, (start + buffer.lead) // item)


def _large(size: int, device: Device) -> torch.Tensor:
    """Return ``size`` bytes: allocated on a GPU, mapped lazily on the CPU."""
    size += -size % 8
    if device == "cuda":
        return torch.empty(size, dtype=torch.uint8, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, size, flags), dtype=torch.uint8)
