"""From the tensors of an engine back to a case: what a step that went wrong was about."""

import inspect
from typing import Any

from cumae.oracle import Case
from cumae.oracle.model.rules import require
from cumae.properties.dialects import DIALECTS


def case_from_tensors(dialect: str, **tensors: Any) -> Case:
    """Return the case that the named tensors of an engine describe.

    Each tensor is of torch, of numpy or a list; the page of the dialect says which names there are.
    A name that is left out, or given as None, is unknown. Raises ``ValueError`` for a dialect that
    reads nothing back, for an unknown or missing name, and where the values cannot be a step.
    """
    captures = {name: known.capture for name, known in DIALECTS.items() if known.capture is not None}
    capture = captures.get(dialect)
    if capture is None:
        raise ValueError(f"dialect = {dialect!r}, must be one that reads tensors: {', '.join(captures)}")
    parameters = inspect.signature(capture).parameters
    for name in tensors:
        known = f"be a tensor that {dialect} reads: {', '.join(parameters)}"
        require(name in parameters, "tensor", name, known)
    given = {name: value for name, value in tensors.items() if value is not None}
    for name, parameter in parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        require(name in given or not needed, name, None, f"be given: {dialect} has no step without it")
    return capture(**given)
