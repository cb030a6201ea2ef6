"""The expected answer of an operation to a case, as text: what each output must hold, request by request."""

from itertools import groupby
from typing import Any

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.dialects import DIALECTS, Output
from cumae.properties.operations import Operation
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.outputs import outputs_of
from cumae.properties.operations.places import Place, Seen

MOST_LINES, MOST_VALUES = 16, 16
_MARKS = {UNTOUCHED: "kept", ANY: "any"}


def answer_lines(operation: Operation, case: Case) -> list[str]:
    """Return the lines of each output: its rule, then its elements by the request that they belong to.

    ``kept``: the element keeps what it held; ``any``: nobody may rely on it.
    """
    inputs = Inputs(case)
    answer = inputs.call(operation.oracle)
    one_of = ", one right answer of several" if operation.judge is not None else ""
    lines = [f"  expected of {operation.name}{one_of}:"]
    for output in outputs_of(operation, DIALECTS["cumae"]).values():
        values = output.values(answer, inputs)
        lines.append(f"    {output.name}, {output.dtype_for(case)}: {output.rule}")
        lines += [f"      {line}" for line in _lines(output, case, values)]
    return lines


def _lines(output: Output, case: Case, values: list[Any]) -> list[str]:
    if not values:
        return ["no elements"]
    placing = axis_named(output.axis).placing
    runs = groupby(
        enumerate(values), key=lambda one: _owner(placing.place(case, one[0] // output.per_item, Seen()))
    )
    lines = [f"{owner:<12}{_told([value for _, value in run])}".rstrip() for owner, run in runs]
    left_out = len(lines) - MOST_LINES
    return lines if left_out <= 0 else [*lines[:MOST_LINES], f"… {left_out} more lines"]


def _owner(place: Place) -> str:
    if place.request is not None and not place.ends:
        return f"request {place.request}"
    return "padding" if place.padding is not None else ""


def _one(value: Any) -> str:
    """Return an element as text; a row of bytes by the input's row that it is made from."""
    if isinstance(value, tuple):
        return f"{value[0]}[{', '.join(map(str, value[1:]))}]"
    return _MARKS.get(value) or str(value)


def _told(values: list[Any]) -> str:
    shown = ", ".join(map(_one, values[:MOST_VALUES]))
    left_out = len(values) - MOST_VALUES
    return f"[{shown}{f', … {left_out} more' if left_out > 0 else ''}]"
