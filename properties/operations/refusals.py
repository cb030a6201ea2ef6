"""Operations and domains that no function can be bound to: each is refused with its name, value and rule."""

from collections.abc import Collection, Mapping, Sequence

from cumae.oracle import INPUTS
from cumae.oracle.model.rules import did_you_mean, require
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.dialects import Dialect, Output
from cumae.properties.operations import OPERATIONS, Operation
from cumae.properties.operations.expected import names_of_the_dialect
from cumae.properties.operations.outputs import outputs_of


def outputs_in(operation: Operation, dialect: Dialect) -> Mapping[str, Output]:
    """Return the outputs that an operation has in a dialect, by name.

    Raises ``ValueError`` if there are none, for an unknown feature or input, and for the name of a shipped
    operation with other outputs.
    """
    _require_own_name(operation)
    for feature in operation.features.difference(NAMES):
        hint = did_you_mean(feature, NAMES)
        require(False, f"{operation.name}.features", feature, "be a feature of cases", hint=hint)
    known = outputs_of(operation, dialect)
    if not known:
        those = ", ".join(sorted(dialect.outputs))
        rule = f"be an operation of dialect {dialect.name}, or your own: {those}"
        raise ValueError(f"operation = {operation.name!r}, must {rule}")
    _require_inputs(operation, dialect)
    return known


def require_promises(
    domain: Domain, operation: Operation, called_with: Sequence[str], unvaried: Collection[str]
) -> None:
    """Raise ``ValueError`` for views that are no arguments, and for several values of an ``unvaried`` option.

    ``unvaried``: options that an argument shows and the operation has not.
    """
    for name in domain.views:
        require(name in called_with, "views", name, f"be an argument: {', '.join(called_with)}")
    rule = f"be one value: {operation.name} has no such option, so its cases have the first alone"
    for name, values in domain.values.items():
        require(len(values) == 1 or name not in unvaried, name, values, rule)


def require_forms(domain: Domain, outputs: Mapping[str, Output]) -> None:
    """Raise ``ValueError`` for a domain without the only value that the form of an output has."""
    for output, form in outputs.items():
        for name, value in form.settles.items():
            held = domain.among(name, (value,))
            require(value in held, name, tuple(held), f"hold {value}: `{output}` has no other form")


def _require_own_name(operation: Operation) -> None:
    """Raise ``ValueError`` if a shipped operation of that name has other outputs."""
    known = OPERATIONS.get(operation.name, operation)
    outputs, shipped = (tuple(output.name for output in one.outputs) for one in (operation, known))
    if outputs != shipped:
        rule = f"have another name, or the outputs {', '.join(shipped)} of the shipped operation"
        raise ValueError(f"operation = {operation.name!r}, must {rule}")


def _require_inputs(operation: Operation, dialect: Dialect) -> None:
    """Raise ``ValueError`` for a parameter of an oracle that is neither cumae's input nor the dialect's."""
    for name in names_of_the_dialect(operation.oracle):
        if name not in dialect.inputs:
            hint = did_you_mean(name, (*INPUTS, *dialect.inputs))
            rule = f"be an input of cumae or of dialect {dialect.name}: `cumae list --axes` names them"
            raise ValueError(f"parameter = {name!r} of the oracle of {operation.name}{hint}, must {rule}")
