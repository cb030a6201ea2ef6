"""What one call of a function did, or that it raised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations.tracebacks import told_of, traceback_of
from cumae.properties.running.memory import Words


class KernelRaised(Exception):
    """The function under test raised on a valid case. ``traceback``: the whole one, of its own error."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback

    @classmethod
    def of(cls, error: BaseException, function: object, when: str = "") -> "KernelRaised":
        """Return what says that a function raised an error, and where; ``when``: put behind its type."""
        return cls(f"raised {told_of(error, function, when)}", traceback_of(error))


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call did: ``outputs`` by name, damage outside elements, inputs changed, accesses outside.

    ``before``: what the memory of the outputs held before the call: poison, but for arguments that are
    input and output. ``opaque``: returned outputs whose memory could not be poisoned. ``dtypes``: of
    returned tensors; ``mistyped``: of which dtype those must be that have another one; ``shapes``: of which
    shape they must be, or flat.
    """

    outputs: dict[str, Words]
    before: dict[str, Words]
    damage: tuple[str, ...]
    watch: Watch | None
    poison: int
    opaque: frozenset[str] = frozenset()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    mistyped: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_misshapen(self) -> bool:
        """Whether something that was returned has more or fewer elements than it must have."""
        return any(self.outputs[name].size != prod(shape) for name, shape in self.shapes.items())
