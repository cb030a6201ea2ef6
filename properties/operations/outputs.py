"""The outputs of an operation in a dialect, each as a complete record."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from operator import index

from cumae.oracle import Case
from cumae.oracle.model.rules import did_you_mean, require, require_choice
from cumae.properties.dialects import Dialect, Output
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.operations.axes import AXES, axis_named
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.table import OPERATIONS

DTYPES = ("bool", "uint8", "int32", "int64", "fp32")
"""Those of outputs that are numbers; fp32 is compared by its bits."""


def outputs_of(operation: Operation, dialect: Dialect) -> dict[str, Output]:
    """Return the outputs by name: the operation's own if the dialect has them, then those it adds.

    A user's own operation has its own names in every dialect that does not mention it. Raises ``ValueError``
    for an output without a dtype, for one without a shape on an axis that gives none, and for one that
    follows no output of the operation.
    """
    own = {output.name: output for output in operation.outputs}
    theirs = {
        output.name: _following(output, own, operation) for output in dialect.outputs.get(operation.name, ())
    }
    found = theirs
    if dialect.own_outputs or (operation.name not in OPERATIONS and not theirs):
        kept = {name: output for name, output in own.items() if name not in theirs}
        found = {name: _following(output, own, operation) for name, output in kept.items()} | theirs
    for name, output in found.items():
        require(bool(output.dtype), f"{name}.dtype", output.dtype, "be given")
        is_told = isinstance(output.dtype, str) or callable(output.dtype)
        require(is_told, f"{name}.dtype", output.dtype, f"be a text: {', '.join(DTYPES)}")
        if isinstance(output.dtype, str):
            require_choice(f"{name}.dtype", output.dtype, tuple(ITEM_BYTES) if output.is_rows else DTYPES)
        if output.shape is None:
            has_extent = axis_named(output.axis).extent is not None
            told = "does not tell it" if output.axis in AXES else "is none of `cumae list --axes`"
            hint = did_you_mean(output.axis, AXES) if output.axis not in AXES else ""
            rule = f"be given: axis {output.axis!r} {told}"
            require(has_extent, f"{name}.shape", None, rule, hint=hint)
    return found


def _following(output: Output, own: dict[str, Output], operation: Operation) -> Output:
    """Return an output with the values it inherits from the one it follows; an own output follows itself."""
    rule = output.rule or (own[output.name].rule if output.name in own else "") or operation.rule
    if output.expect is not None and not output.rule and output not in own.values():
        rule += "; the dialect's page says where the engine's form differs"
    base = own.get(output.follows or output.name)
    if base is None:
        known = f"be an output of {operation.name}: {', '.join(own)}"
        require(not output.follows, f"{output.name}.follows", output.follows, known)
        return replace(output, rule=rule)
    return replace(
        output,
        rule=rule,
        follows=base.name,
        dtype=output.dtype or base.dtype,
        axis=output.axis or base.axis,
        shape=output.shape or base.shape,
        carries=output.carries or (() if output.shape else base.carries),
        unordered=output.unordered or base.unordered,
        is_list=output.is_list or base.is_list,
    )


def num_elements(outputs: Iterable[Output], case: Case) -> int:
    """Return how many elements outputs have together in a case."""
    return sum(prod(shape_of(output, case)) for output in outputs)


def shape_of(output: Output, case: Case) -> tuple[int, ...]:
    """Return the shape of an output for a case. Raises ``ValueError`` if its own rule raises."""
    if output.shape is not None:
        try:
            shape = tuple(map(index, output.shape(case)))
        except (AttributeError, TypeError, LookupError, ArithmeticError, ValueError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ValueError(f"{output.name}.shape raises {told}, must give sizes for each Case") from error
        require(min(shape, default=0) >= 0, f"{output.name}.shape", shape, "have no size below 0")
        return shape
    axis = axis_named(output.axis)
    assert axis.extent is not None  # outputs_of raises otherwise
    each = axis.extent(case).num_padded * axis.entries(case)
    return (each * case.num_context_chunks if axis.in_chunks else each,)


def accepted_shapes(output: Output, case: Case) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a returned output may have: its own, and a row for each item or chunk."""
    shape = shape_of(output, case)
    axis, count = axis_named(output.axis), prod(shape)
    if output.per_item > 1:
        return shape, (count // output.per_item, output.per_item)
    if output.shape is not None or axis.extent is None:
        return (shape,)
    num_items = axis.extent(case).num_padded
    if axis.in_chunks and axis.items is not None:
        return shape, (case.num_context_chunks, num_items)
    return (shape, (num_items, axis.entries(case))) if axis.has_entries else (shape,)


def strides_of(output: Output, case: Case) -> tuple[int, ...]:
    """Return the elements between neighbours in each dimension of an output for a case."""
    if output.strides is not None:
        return output.strides(case)
    shape = shape_of(output, case)
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
