"""The memory of one tensor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one tensor from ``start`` to ``stop``: elements of ``item`` bytes, ``step`` of them a row."""

    name: str
    start: int
    stop: int
    item: int
    step: int = 1

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.stop

    def index(self, address: int) -> int:
        """Return the index of the element, or row, at an address."""
        return (address - self.start) // (self.item * self.step)


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
