"""The observation of one call of a function, or its error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch

from cumae.properties.interpreter.launch import TooManyTurns, WaitsForEver
from cumae.properties.interpreter.watch import Watch
from cumae.properties.operations.tracebacks import asks_for_gpu, says, told_of, traceback_of
from cumae.properties.running.words import Words
from cumae.properties.taking.stub import NotGiven

_LACKING = "not supported in interpreter mode"
"""The words of Triton's interpreter about inline assembly and about functions of libraries."""
_IN_CUDA_GRAPHS = ("in the cudagraph pool", "output of CUDAGraphs that has been overwritten")
"""What torch says if memory of its own CUDA graphs is kept for longer than it allows."""
_WITHOUT_CUDA_GRAPHS = (
    "be compiled without CUDA graphs of torch, which mode='reduce-overhead' makes: "
    "torch reuses the memory that the function allocates and returns in them"
)


class IsATest(TypeError):
    """Raised by a test that is called in place of the function that it tests."""


class KernelRaised(Exception):
    """The function under test raised on a valid case. ``traceback``: of its own error, in full.

    ``waits``: the programs of a launch that wait for ever, and where, as text. ``gives_up``: whether the
    launch was ended after too many turns, which says nothing about the function.
    """

    def __init__(self, message: str, traceback: str = "", *, waits: str = "", gives_up: bool = False) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.waits = waits
        self.gives_up = gives_up

    @classmethod
    def of(cls, error: BaseException, function: object, when: str = "") -> Exception:
        """Return the exception for an error of a function; ``when`` follows the error's type in it.

        If it needs the value of a stub, or what Triton's interpreter cannot do, or a GPU where there is none,
        or CUDA graphs of torch, or calls a test, that is a ``ValueError``: it tells nothing of the function.
        """
        origin: BaseException | None = error
        known = WaitsForEver, TooManyTurns, NotGiven, IsATest, NotImplementedError
        while origin is not None and not isinstance(origin, known):
            origin = origin.__cause__ or origin.__context__
        if isinstance(origin, (NotGiven, IsATest)):
            return ValueError(str(origin))
        rule = ""
        if not torch.cuda.is_available() and asks_for_gpu(error):
            rule = f"not ask for a GPU on a machine without one: {told_of(error, function, when)}"
        elif isinstance(origin, NotImplementedError) and _LACKING in str(origin):
            rule = f"run on a GPU: Triton says {str(origin)!r}"
        elif says(error, _IN_CUDA_GRAPHS):
            rule = _WITHOUT_CUDA_GRAPHS
        if rule:
            return ValueError(f"target = {getattr(function, '__name__', function)!r}, must {rule}")
        waits = str(origin) if isinstance(origin, WaitsForEver) else ""
        said = f"waits for ever: {waits}" if waits else f"raised {told_of(error, function, when)}"
        return cls(said, traceback_of(error), waits=waits, gives_up=isinstance(origin, TooManyTurns))


@dataclass(frozen=True, slots=True)
class Observation:
    """One observed call: ``outputs`` by name, damage outside elements, changed inputs, stray accesses.

    ``before``: the outputs' memory before the call: poison, except for arguments that are input and
    output. ``opaque``: returned outputs whose memory could not be poisoned. ``dtypes``: of returned
    tensors; ``mistyped``: the required dtype of those that have another; ``shapes``: the shapes
    that are accepted (flat is accepted too). ``unread``: whether a tensor was returned that is no output,
    as all outputs are arguments. ``cut``: the lengths of lists that are shorter than their room, which
    stand here with the room behind them. ``unwritten``: which words still have their value from before the
    call, made when it is asked for.
    """

    outputs: dict[str, Words]
    before: dict[str, Words]
    damage: tuple[str, ...]
    watch: Watch | None
    poison: int
    opaque: frozenset[str] = frozenset()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    mistyped: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    unread: bool = False
    cut: Mapping[str, int] = field(default_factory=dict)
    unwritten: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_misshapen(self) -> bool:
        """Whether a returned output has a wrong number of elements."""
        return any(self.outputs[name].size != prod(shapes[0]) for name, shapes in self.shapes.items())


Seen = Observation | KernelRaised
"""The result of a call: it answered, or raised."""
