"""Outputs of an operation that another dialect hands to its functions as inputs."""

from cumae.oracle import Batch, Case, Inputs, Request
from cumae.properties.dialects import DIALECTS, Dialect, Ints
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.outputs import outputs_of

_REQUESTS = Request(3, 2, (1, 6), "decode"), Request(0, 5, (2, 3)), Request(1, 4, (4, 5))
_STEP = Inputs(Case(Batch(_REQUESTS, 4)))
"""A step in which inputs do not have the same values by chance."""


def handed_by(name: str, operation: Operation, dialect: Dialect) -> str:
    """Return the dialect and the input by which functions get an output of an operation, "" if there is none.

    ``name``: of the output, which is an input of other operations in ``dialect``.
    """
    mine, followed = _values(dialect, name), outputs_of(operation, dialect)[name].follows or name
    for other in DIALECTS.values():
        theirs = outputs_of(operation, other).items()
        if not theirs or any((output.follows or its) == followed for its, output in theirs):
            continue
        for given in other.inputs:
            if mine is not None and _values(other, given) == mine:
                return f"dialect {other.name} has `{name}` as input `{given}`"
    return ""


def _values(dialect: Dialect, name: str) -> object:
    """Return the values of an input in the step, None if it is no tensor of integers."""
    held = dialect.inputs[name].hold(_STEP)
    return held.values.tolist() if isinstance(held, Ints) else None
