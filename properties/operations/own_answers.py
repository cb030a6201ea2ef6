"""The answer of a user's definition of an operation: one that cannot be compared is refused."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from cumae.oracle import ANY, UNTOUCHED, Case
from cumae.oracle.model.rules import INT32_MAX, require
from cumae.properties.dialects import Output
from cumae.properties.operations.enlarged import has_large_slots
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.outputs import shape_of
from cumae.properties.operations.users_files import files_of, is_ours

MOST_TOLD = 8
"""Requests whose lengths an error tells."""
RANGES = {"bool": (0, 1), "uint8": (0, 255), "int32": (-(2**31), INT32_MAX), "int64": (-(2**63), 2**63 - 1)}
"""The least and the largest value of each dtype of integers."""


@lru_cache(maxsize=256)
def is_own(oracle: Callable[..., Any]) -> bool:
    """Whether a definition is a user's, and may be wrong."""
    return not any(map(is_ours, files_of(oracle)))


def require_field(operation: Operation, output: Output, answer: Any) -> None:
    """Raise ``ValueError`` if the answer of a user's definition has no field for an output."""
    field = output.follows or output.name
    if output.expect is None and not hasattr(answer, field):
        rule = f"be a NamedTuple with a field {field!r}"
        require(False, f"{operation.name}: what its definition returns", type(answer).__name__, rule)


def listed(operation: Operation, output: Output, values: Any) -> list[Any]:
    """Return the values of a user's definition, a number or a mark as the only one; refuse others."""
    if (
        values is ANY
        or values is UNTOUCHED
        or isinstance(values, (int, float, np.integer, np.floating, np.bool_))
    ):
        return [values]
    is_list = isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, str)
    rule = f"be a list of numbers, or one number, for {output.name}"
    require(is_list, f"{operation.name}: what its definition returns", values, rule)
    return list(values)


def require_numbers(operation: Operation, output: Output, values: Sequence[Any], case: Case) -> None:
    """Raise ``ValueError`` if an output cannot hold a value of a user's definition, or not so many."""
    room = prod(shape_of(output, case))
    rule = f"be {room}, as the shape or axis of the output says, for {lengths_told(case)}"
    require(len(values) == room, f"{operation.name}: {output.name}: number of values", len(values), rule)
    kinds: tuple[type, ...] = (int, np.integer, np.bool_)
    what = "an integer"
    dtype = output.dtype_for(case)
    if dtype == "fp32":
        kinds, what = (*kinds, float, np.floating), "a number"
    # Of slots from 2^31 on, which a function may promise away, one that wraps around is told with its values.
    least, most = RANGES.get(dtype, (-inf, inf)) if not has_large_slots(case) else (-inf, inf)
    for i, value in enumerate(values):
        if value is UNTOUCHED or value is ANY:
            continue
        if not isinstance(value, kinds):
            entry = f"{operation.name}: {output.name}[{i}]"
            require(False, entry, value, f"be {what}, for {lengths_told(case)}")
        if value < least or value > most:  # neither is true of NaN
            entry = f"{operation.name}: {output.name}[{i}]"
            wide = "; a promise may leave out such large ids or contexts" if dtype == "int32" else ""
            rule = f"be {least} to {most}, as its dtype {dtype} holds, for {lengths_told(case)}{wide}"
            require(False, entry, value, rule)


def lengths_told(case: Case) -> str:
    """Return the lengths of a case's first requests in words."""
    requests = case.batch.requests
    lens = [f"{request.context_len} + {request.query_len}" for request in requests[:MOST_TOLD]]
    more = f", … of {len(requests):,}" if len(requests) > MOST_TOLD else ""
    return f"requests of cached + new tokens: {', '.join(lens)}{more}" if lens else "a step without requests"
