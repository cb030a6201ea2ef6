"""The memory of one tensor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


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
