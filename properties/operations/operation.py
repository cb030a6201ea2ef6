"""An operation: one table row, from which tests, fixtures, command line and figures are derived."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Output


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its oracle, which answers with a field for each output, and its known facts.

    ``features``: the features that its cases may vary. ``rule``: the sentence it must obey. ``kernels``:
    targets shipped here. ``enlarge`` yields the same case at addresses beyond 2^31 elements.

    ``judge``: for an operation with many right answers. It gets the outputs by name, floats as they are, and
    returns a sentence for each fault, a ``Fault`` where it is about one row; the oracle then gives one right
    answer, or shapes and extents only.
    ``unattended``: why attention, computed through the metadata of a step, does not depend on the operation.
    ``rights``: how many answers of each row are right then: 1, 2 for several, 0 for any.
    """

    name: str
    oracle: Callable[..., Any]
    outputs: tuple[Output, ...]
    features: frozenset[str] = frozenset()
    rule: str = ""
    kernels: tuple[str, ...] = ()
    enlarge: Callable[[Case], Iterator[Case]] | None = None
    judge: Callable[[Inputs, Mapping[str, list[Any]]], Sequence[str]] | None = None
    rights: Callable[[Inputs], list[int]] | None = None
    unattended: str = ""

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"
