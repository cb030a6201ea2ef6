"""Poisoned tensors between guard words, and tensors whose strides span more memory than the machine has."""

import mmap
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cumae.properties.dialects import Floats, Ints, Rows
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.device import Device

GUARD_BYTES = 8192
LITTLE_GUARD_BYTES = 1024
"""Between the buffers of many calls, which guard each other."""
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
_NUMPY = {"bool": np.bool_, "uint8": np.uint8, "int32": np.int32, "int64": np.int64}
_WORDS = {"bf16": np.int16, "int32": np.int32, "fp32": np.int32, "int64": np.int64}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
Words = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class Buffer:
    """One argument tensor and the memory it lies in.

    ``before``: all its bytes before the launch, guards included; None if the span is too large to keep.
    Such a buffer is checked by its elements only; ``words_there`` holds them for an input written in
    place. ``tensor`` exists once the buffer is placed, ``after`` once it is collected. ``is_rows``: the
    last dimension is a row of opaque bytes. ``lead``: bytes before the first element; ``guard``: bytes of
    guard words on either side.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    before: Bytes | None
    is_rows: bool
    lead: int
    large: torch.Tensor | None = None
    words_there: Words | None = None
    tensor: torch.Tensor | None = None
    after: Bytes | None = None
    guard: int = GUARD_BYTES

    def again(self) -> "Buffer":
        """Return the buffer of another call with the same content before it."""
        kind = self.name, self.dtype, self.shape, self.strides
        return Buffer(*kind, self.before, self.is_rows, self.lead, guard=self.guard)

    def words(self) -> Words:
        """Return the elements after the call, flat: integers, float bits, or uint8 rows if ``is_rows``."""
        if self.after is None:
            assert self.tensor is not None
            found = words_of(self.tensor, is_rows=self.is_rows)
            return found if self.is_rows else found.reshape(-1)
        return self._words(self.after)

    def words_before(self, poison: int) -> Words:
        """Return the elements before the call; in a span too large to keep, all were ``poison``."""
        if self.before is None:
            return poison_words(poison, self.words()) if self.words_there is None else self.words_there
        return self._words(self.before)

    def _words(self, content: Bytes) -> Words:
        if self.is_rows:
            row_bytes = self.shape[-1] * ITEM_BYTES[self.dtype]
            return np.ascontiguousarray(self.elements(content)).reshape(prod(self.shape[:-1]), row_bytes)
        kind = _WORDS.get(self.dtype, np.uint8)
        if self.is_dense:
            return content[self.lead : len(content) - self.guard].view(kind)
        return np.ascontiguousarray(self.elements(content)).view(kind).reshape(-1)

    def damage(self, *, elements_too: bool) -> str | None:
        """Return the place of the first changed byte outside the elements, or anywhere; None if none."""
        before, after = self.before, self.after
        if before is None or after is None:
            return None
        if not elements_too and self.is_dense:
            stop = len(before) - self.guard
            if _same(after[: self.lead], before[: self.lead]) and _same(after[stop:], before[stop:]):
                return None
        elif _same(after, before):
            return None
        changed = after != before
        if not elements_too:
            self.elements(changed)[...] = False
        where = np.flatnonzero(changed) - self.lead
        if not len(where):
            return None
        size = self.span_bytes(changed)
        outside = where[(where < 0) | (where >= size)]
        return self._place(int(outside[0] if len(outside) else where[0]), size)

    @property
    def is_dense(self) -> bool:
        """Whether the elements follow each other without gaps, in order of their indices."""
        return _are_dense(self.shape, self.strides)

    def span_bytes(self, content: npt.NDArray[Any]) -> int:
        """Return the bytes from the first to the last element of ``content``, which is laid out like it."""
        return len(content) - self.lead - self.guard

    def _place(self, byte: int, size: int) -> str:
        """Return the place of a byte in words; ``byte`` counts from the first of ``size`` spanned."""
        shape = self.shape[:-1] if self.is_rows else self.shape
        each = ITEM_BYTES[self.dtype] * (self.shape[-1] if self.is_rows else 1)
        if each and size == prod(shape) * each:
            return f"at {'row' if self.is_rows else 'element'} {byte // each}, of which it has {prod(shape)}"
        if byte < 0:
            return f"at byte {-byte} before its start"
        return f"at byte {byte - size + 1} after its end" if byte >= size else f"at byte {byte}"

    def elements(self, content: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a view of the elements' bytes in ``content``, which is laid out like the buffer."""
        item = ITEM_BYTES[self.dtype]
        if self.is_dense:
            return content[self.lead : self.lead + prod(self.shape) * item].reshape(*self.shape, item)
        strides = (*(stride * item for stride in self.strides), 1)
        return np.lib.stride_tricks.as_strided(content[self.lead :], (*self.shape, item), strides)


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


@lru_cache(maxsize=4096)
def _are_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    stride = 1
    for n, own in zip(reversed(shape), reversed(strides), strict=True):
        if own != stride and n != 1:
            return False
        stride *= n
    return True


def _same(one: Bytes, other: Bytes) -> bool:
    """Return whether bytes are equal; for a few, NumPy's comparison takes ten times as long."""
    return one.tobytes() == other.tobytes()


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
    whole = (storage[: size // item * item] if size % item else storage).view(_TORCH[buffer.dtype])
    return whole.as_strided(buffer.shape, buffer.strides, (start + buffer.lead) // item)


def _large(size: int, device: Device) -> torch.Tensor:
    """Return ``size`` bytes: allocated on a GPU, mapped lazily on the CPU."""
    size += -size % 8
    if device == "cuda":
        return torch.empty(size, dtype=torch.uint8, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, size, flags), dtype=torch.uint8)
