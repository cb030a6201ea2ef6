"""One argument tensor of a call and the bytes around it, before and after the call."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.words import Words, poison_words, words_of

GUARD_BYTES = 8192
LITTLE_GUARD_BYTES = 1024
"""Between the buffers of many calls, which guard each other."""
_WORDS = {"bf16": np.int16, "int32": np.int32, "fp32": np.int32, "int64": np.int64}
Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class Buffer:
    """One argument tensor and the memory it lies in.

    ``before``: all its bytes before the launch, guards included; None if the span is too large to keep.
    Such a buffer is checked by its elements only; ``words_there`` holds them for an input written in
    place. ``tensor`` exists once the buffer is placed, ``after`` once it is collected. ``is_rows``: the
    last dimension is a row of opaque bytes. ``lead``: bytes before the first element; ``guard``: bytes of
    guard words on either side. ``judged``: the part of the tensor that is read back.
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
    judged: tuple[slice, ...] = ()

    def again(self) -> "Buffer":
        """Return the buffer of another call with the same content before it."""
        kind = self.name, self.dtype, self.shape, self.strides
        return Buffer(*kind, self.before, self.is_rows, self.lead, guard=self.guard)

    def words(self) -> Words:
        """Return the elements after the call, flat: integers, float bits, or uint8 rows if ``is_rows``."""
        if self.after is None:
            assert self.tensor is not None
            found = words_of(self.tensor[self.judged], is_rows=self.is_rows)
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
            rows = self.elements(content)[self.judged]
            return np.ascontiguousarray(rows).reshape(prod(rows.shape[:-2]), row_bytes)
        kind = _WORDS.get(self.dtype, np.uint8)
        if self.is_dense:
            return content[self.lead : len(content) - self.guard].view(kind)
        return np.ascontiguousarray(self.elements(content)).view(kind).reshape(-1)

    def damage(self, *, elements_too: bool) -> str | None:
        """Return the place of the first changed byte outside the elements, or anywhere; None if none.

        Of an integer it also returns the value before and behind.
        """
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
        byte = int(outside[0] if len(outside) else where[0])
        each = ITEM_BYTES[self.dtype]
        if not self.dtype.startswith("int") or not 0 <= byte < size:
            return self._place(byte, size)
        first = self.lead + byte // each * each
        was, now = (
            int.from_bytes(one[first : first + each].tobytes(), "little", signed=True)
            for one in (before, after)
        )
        return f"{self._place(byte, size)}: it was {was} and is {now}"

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
