"""Read the tensors of an engine, dumped to a file or passed in, as a case."""

import inspect
from collections.abc import Callable
from typing import Any

from cumae.oracle import Case
from cumae.oracle.model.rules import require
from cumae.properties.dialects import DIALECTS
from cumae.properties.dialects.dump_file import Dump
from cumae.properties.dialects.tensor_values import Unreadable


class Contradiction(ValueError):
    """Tensors that can be read, and that together are no step: a finding about the engine."""


def case_of(dump: Dump, dialect: str) -> Case:
    """Return the case that a dump describes; names that the dialect does not have are ignored.

    Raises ``Contradiction`` if the tensors contradict each other, and ``ValueError`` if they cannot be read
    or some are missing.
    """
    parameters, foreign = names_read(dialect), foreign_names(dump, dialect)
    try:
        return case_from_tensors(dialect, **{name: dump[name] for name in dump if name in parameters})
    except Unreadable as error:
        if not foreign:
            raise
        raise Unreadable(f"{error}; not names of {dialect}: {', '.join(foreign)}") from error


def foreign_names(dump: Dump, dialect: str) -> list[str]:
    """Return the names of a dump that are neither inputs nor outputs of a dialect, in the dump's order."""
    known = _names(dialect)
    return [name for name in dump if name not in known]


def likely_dialect(dump: Dump) -> str:
    """Return the dialect that has the most names of a dump, "" if none reads any."""
    counts = {name: len(_names(name) & dump.keys()) for name, known in DIALECTS.items() if known.capture}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else ""


def names_read(dialect: str) -> set[str]:
    """Return the names that a dialect makes a case of."""
    return set(inspect.signature(_capture(dialect)).parameters)


def _names(dialect: str) -> set[str]:
    outputs = (output.name for known in DIALECTS[dialect].outputs.values() for output in known)
    return {*names_read(dialect), *outputs, *DIALECTS[dialect].inputs}


def _capture(dialect: str) -> Callable[..., Case]:
    """Return the function of a dialect that makes a case of tensors."""
    captures = {name: known.capture for name, known in DIALECTS.items() if known.capture is not None}
    capture = captures.get(dialect)
    if capture is None:
        raise ValueError(f"dialect = {dialect!r}, must be one that reads tensors: {', '.join(captures)}")
    return capture


def case_from_tensors(dialect: str, **tensors: Any) -> Case:
    """Return the case that the named tensors of an engine describe.

    Each tensor is a torch tensor, a NumPy array or a list; the dialect's page lists the names. A name that is
    left out, or given as None, is unknown. Raises ``Contradiction``, a ``ValueError``, if the values cannot
    be one step, and ``ValueError`` for a dialect that cannot read tensors back, for unknown or missing names,
    and for values that cannot be read.
    """
    capture = _capture(dialect)
    parameters = inspect.signature(capture).parameters
    for name in tensors:
        known = f"be a tensor that {dialect} reads: {', '.join(parameters)}"
        require(name in parameters, "tensor", name, known)
    try:
        return capture(**{name: value for name, value in tensors.items() if value is not None})
    except Unreadable:
        raise
    except ValueError as error:
        raise Contradiction(str(error)) from error
