"""A dialect: the names by which an engine calls what its kernels get, and how it holds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cumae.oracle import Case, GarbageKind, Inputs
from cumae.properties.dialects.held import Held


@dataclass(frozen=True, slots=True)
class Input:
    """An argument a kernel may name: how it is held, and which features of a case it shows."""

    hold: Callable[[Inputs], Held]
    carries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedOutput:
    """A one-dimensional output buffer as an engine names and holds it.

    ``expect`` returns its expected elements from the oracle's answer and the inputs: integers,
    UNTOUCHED or ANY. ``axis``: what an index counts; ``per_item``: elements for each of these.
    ``says``: the operation's own output of which the same facts hold, "" if there is none.
    """

    dtype: str
    length: Callable[[Inputs], int]
    expect: Callable[[Any, Inputs], list[Any]]
    axis: str
    per_item: int = 1
    says: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of inputs, and by (operation, name) the outputs that are not simply the operation's own.

    ``own_outputs``: whether the operation's own output names exist here too. ``quiet_garbage``:
    what this engine leaves where nobody looks, used by the checks that are not about garbage.
    ``reserved_blocks``: lowest block ids that belong to no request. ``capture``: the way back, the
    case that says what tensors dumped from this engine say; it takes them by name and may raise
    ValueError.
    """

    name: str
    inputs: Mapping[str, Input]
    outputs: Mapping[tuple[str, str], NamedOutput] = field(default_factory=dict)
    own_outputs: bool = True
    quiet_garbage: GarbageKind = "minus_one"
    reserved_blocks: int = 0
    capture: Callable[..., Case] | None = None

    def outputs_of(self, operation: str) -> dict[str, NamedOutput]:
        """Return the outputs this dialect names or holds in its own way for an operation."""
        return {name: output for (owner, name), output in self.outputs.items() if owner == operation}
