"""The memory of one tensor."""

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one tensor from ``start`` to ``stop``: elements of ``item`` bytes.

    Rows of ``width`` elements begin ``step`` elements apart. A row of bytes counts as one element.
    """

    name: str
    start: int
    stop: int
    item: int
    step: int = 1
    width: int = 1

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.stop

    def index(self, address: int) -> int:
        """Return the index of the element at an address; in a gap, of the last one before it."""
        row, column = divmod((address - self.start) // self.item, self.step)
        return row * self.width + min(column, self.width - 1)

    def address(self, index: int) -> int:
        """Return where an element begins."""
        row, column = divmod(index, self.width)
        return self.start + (row * self.step + column) * self.item


def words_at(addresses: Any, item: int, regions: Iterable[Region]) -> Any:
    """Return the words of ``item`` bytes at addresses that lie in one of the regions, else 0."""
    words = np.zeros(addresses.shape, dtype=np.uint64)
    for span in regions:
        here = (addresses >= span.start) & (addresses < span.stop)
        if here.any():
            size = span.stop - span.start
            memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(span.start))
            first = (addresses[here] - span.start).astype(np.int64)
            content = memory[np.minimum(first[:, None] + np.arange(item), size - 1)]
            words[here] = content.view(f"u{item}").reshape(-1)
    return words


def spans_of(name: str, value: Any) -> Iterator[Region]:
    """Yield the memory of an argument: of a tensor, of a tensor descriptor, or of each part of a tuple."""
    if isinstance(value, tuple):
        for part in value:
            yield from spans_of(name, part)
        return
    tensor = getattr(value, "base", value)
    if hasattr(tensor, "data_ptr") and tensor.numel():
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        start = tensor.data_ptr()
        yield Region(name, start, start + (last + 1) * tensor.element_size(), tensor.element_size())
