"""A dialect: the names by which an engine calls what its kernels get, and how it holds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cumae.oracle import GarbageKind, Inputs
from cumae.properties.dialects.held import Held


@dataclass(frozen=True, slots=True)
class Input:
    """An argument a kernel may name: how it is held, and which features of a case it shows."""

    hold: Callable[[Inputs], Held]
    carries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """An output buffer that holds several outputs of an operation, as its expected values in a flat list."""

    operation: str
    dtype: str
    length: Callable[[Inputs], int]
    pack: Callable[[Any], list[Any]]
    axis: str
    per_item: int = 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of inputs; names of outputs that are not simply those of the operation.

    ``quiet_garbage``: what this engine leaves where nobody looks, used by the checks that are not
    about garbage.
    """

    name: str
    inputs: Mapping[str, Input]
    packed: Mapping[str, Packed] = field(default_factory=dict)
    quiet_garbage: GarbageKind = "minus_one"
