"""Bind a kernel's arguments by name, and check them against dialect and operation."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from cumae.oracle import Case, Inputs, Trace
from cumae.oracle.model.rules import require
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.fields import hidden
from cumae.properties.cases.promises import PROMISES
from cumae.properties.dialects import TENSORS, Dialect, Output, dialect_named
from cumae.properties.dialects.held import shown
from cumae.properties.operations import OPERATIONS, Operation, operation_named
from cumae.properties.operations.callee import (
    by_name,
    call_of,
    home_of,
    required,
    required_to_make,
    with_default,
)
from cumae.properties.operations.guesses import guess
from cumae.properties.operations.outputs import shape_of
from cumae.properties.operations.refusals import outputs_in, require_forms, require_promises


@dataclass(frozen=True, slots=True)
class Binding:
    """A function under test: its inputs and outputs by name, and the features its cases may vary.

    ``outputs``: those passed as arguments; ``returned``: those that it returns; ``forms``: by name the record
    of each output that the dialect has. A class is constructed once for each run of steps and called at each
    step; ``constructor`` names its constructor arguments: host numbers and ``device``. ``pinned``: cases that
    every search tries first. ``promised``: the promises beside its own that its domain has, as text.
    """

    function: Callable[..., Any]
    operation: Operation
    dialect: Dialect
    domain: Domain
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    returned: tuple[str, ...]
    features: frozenset[str]
    forms: Mapping[str, Output]
    constructor: tuple[str, ...] = ()
    pinned: tuple[Case | Trace, ...] = ()
    promised: tuple[str, ...] = ()

    @property
    def keeps_state(self) -> bool:
        """Whether the function is a class, whose instances keep state from step to step."""
        return inspect.isclass(self.function)

    @property
    def name(self) -> str:
        """The module, or the file of a script, and the function's name."""
        return f"{home_of(self.function)}:{self.function.__qualname__}"

    def called_with(self, case: Case, *, outputs: bool = False) -> str:
        """Return the inputs passed as text, host numbers first; ``outputs``: these too, by their shapes."""
        inputs = Inputs(case)
        held = {name: self.dialect.inputs[name].hold(inputs) for name in self.inputs}
        ordered = sorted(held.items(), key=lambda item: isinstance(item[1], TENSORS))
        told = [f"{name}={shown(value)}" for name, value in ordered]
        if outputs:
            written = (name for name in self.outputs if not self.forms[name].is_in_place)
            told += [f"{name}=poison{[*shape_of(self.forms[name], case)]}" for name in written]
        return ", ".join(told)

    @property
    def unpassed(self) -> tuple[str, ...]:
        """The parameters that are named as inputs of the dialect or outputs, but keep their default."""
        function = self.function
        called = call_of(function) if inspect.isclass(function) else function
        known = {*self.dialect.inputs, *self.forms}
        return tuple(name for name in with_default(called) if name in known)

    @property
    def hidden(self) -> frozenset[str]:
        """Features of the operation that the dialect's inputs show, but no input that the function names.

        Those of which the domain promises one value are left out.
        """
        shown = {*self.dialect.inputs, *(f for held in self.dialect.inputs.values() for f in held.carries)}
        promised = {name for name, values in self.domain.values.items() if len(values) == 1}
        if not self.domain.missing_blocks:
            promised.add("missing_blocks")
        if self.domain.values.get("world") == (1,):
            promised |= {"rank", "interleave"}
        return (self.operation.features & shown) - self.features - promised

    def why_not(self, case: Case) -> str | None:
        """Return why the function is not called on a case, its domain or a feature it cannot see, or None."""
        unseen = hidden(case, self.domain.settled_values, self.features)
        if unseen:
            return f"{', '.join(sorted(unseen))}, which {self.name} does not name"
        return self.domain.why_not(case)


def bind(
    function: Callable[..., Any], operation: Operation, dialect: Dialect, domain: Domain | None = None
) -> Binding:
    """Return the binding of a function; parameters with a default keep it.

    The function returns the outputs that it does not name, in the table's order; one that names some and
    returns None computes only those. For a class, the parameters of ``__call__`` are bound, and those of its
    constructor: ``device`` and host numbers. Raises ``ValueError`` for a name that is neither an input nor an
    output, listing the known ones, for an operation without outputs in the dialect, and for a domain with
    several values of an option that an argument shows and the operation has not.
    """
    known = outputs_in(operation, dialect)
    function = by_name(function)
    made_with = required_to_make(function) if inspect.isclass(function) else []
    called_with = required(call_of(function))[1:] if inspect.isclass(function) else required(function)

    def refuse(name: str, rule: str) -> NoReturn:
        hint = guess(name, [*made_with, *called_with], operation, dialect)
        raise ValueError(f"parameter = {name!r}{hint}, must be {rule}: `cumae list` names them")

    for name in made_with:
        if name != "device" and name not in dialect.inputs:
            refuse(name, f"device or an input of dialect {dialect.name}, to make {function.__name__}")
    inputs: list[str] = []
    outputs: list[str] = []
    for name in called_with:
        if name in known:
            outputs.append(name)
        elif name in dialect.inputs:
            inputs.append(name)
        else:
            inputs_of = f"an input of dialect {dialect.name}, or of what its `extend` returns"
            refuse(name, f"an output of {operation.name} ({', '.join(known)}) or {inputs_of}")
    shown = _shown(dialect, {*inputs, *made_with}, [known[name] for name in outputs])
    features = operation.features & shown
    if domain is not None:
        require_promises(domain, operation, called_with, shown - features)
    require_forms(domain or Domain(), {name: known[name] for name in outputs})
    own = {output.name for output in operation.outputs}
    merged = {name for name, output in known.items() if output.per_item > 1 and name not in own}
    returned = () if set(outputs) & merged else tuple(n for n in known if n not in {*outputs, *merged})
    return Binding(
        function,
        operation,
        dialect,
        _within(domain or Domain(), dialect, features, is_own=operation.name not in OPERATIONS),
        tuple(inputs),
        tuple(outputs),
        returned,
        features,
        known,
        tuple(made_with),
    )


def promises_of(binding: Binding) -> str:
    """Return the promises in which a function's domain differs from its default domain, as text."""
    unasked = bind(binding.function, binding.operation, binding.dialect).domain
    given = binding.domain
    differ = [name for name in PROMISES if getattr(given, name) != getattr(unasked, name)]
    told = [f"{name}={getattr(given, name)!r}" for name in differ]
    told += [f"{name}={value!r}" for name, value in given.values.items() if unasked.values.get(name) != value]
    return ", ".join(told)


def _within(domain: Domain, dialect: Dialect, features: Collection[str], *, is_own: bool) -> Domain:
    """Return the part of a domain that the dialect supports; latent widths only apply to row copies.

    ``is_own``: whether the operation is a user's, whose outputs have the rows of a case, not of the dialect.
    """
    values = dict(domain.values)
    for name, held in dialect.values.items():
        values[name] = tuple(value for value in domain.among(name, held) if value in held)
        rule = f"hold one of dialect {dialect.name}: {', '.join(map(str, held))}"
        require(bool(values[name]), name, domain.values.get(name), rule)
    return replace(
        domain,
        reserved_blocks=max(domain.reserved_blocks, dialect.reserved_blocks),
        rowless_requests=domain.rowless_requests and dialect.rowless_requests,
        padded_together=domain.padded_together or (is_own and dialect.pads_requests),
        latent_dims=domain.latent_dims if "row_format" in features else None,
        head_dims=domain.head_dims if "head_dims" in features else None,
        values=values,
    )


def _shown(dialect: Dialect, inputs: set[str], outputs: Collection[Output]) -> frozenset[str]:
    """Return the features that an input or an output of the function shows, of whatever operation."""
    inputs = inputs | {dialect.inputs[name].alias for name in inputs & set(dialect.inputs)}
    shown = inputs.union(*(dialect.inputs[name].carries for name in inputs & set(dialect.inputs)))
    return frozenset(shown.union(*(output.carries for output in outputs)))


def binding_of(
    function: Callable[..., Any],
    operation: str | Operation | None,
    dialect: str | Dialect = "cumae",
    domain: Domain | None = None,
) -> Binding:
    """Return the binding of a function by name, or the existing one of a test made by ``conforms_to``.

    ``operation``: None for that of the test. Raises ``ValueError`` for unknown names, listing the known ones,
    for a test of another operation or dialect, and for a test that only pytest can fill.
    """
    made = getattr(function, "cumae_binding", None)
    if isinstance(made, Binding):
        given: tuple[str, ...] = getattr(function, "cumae_given", ())
        if given:
            raise ValueError(f"target = {made.name!r}, must be run by pytest, which fills {', '.join(given)}")
        own = made.operation.name
        is_other = isinstance(operation, str) and operation != own
        require(not is_other, "operation", operation, f"be {own}, which {made.name} conforms to")
        named = made.dialect.name
        is_other = isinstance(dialect, str) and dialect not in ("cumae", named)
        require(not is_other, "dialect", dialect, f"be {named}, in which {made.name} names its arguments")
        return made
    if operation is None:
        raise ValueError("--op = None, must name the operation that TARGET computes")
    return bind(function, operation_named(operation), dialect_named(dialect), domain)
