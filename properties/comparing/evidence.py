"""The evidence for a cause: wrong values, and the answers of kernels with known faults."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.cause import Evidence, Guess, padding_cause
from cumae.properties.comparing.guesses import Ask, guesses_for
from cumae.properties.comparing.masks import Mask, elements, unwritten, wrong_elements
from cumae.properties.operations import Expected
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.handed import handed_by
from cumae.properties.operations.items import extent_of
from cumae.properties.running.memory import GUARD_PATTERN
from cumae.properties.running.observation import Observation
from cumae.properties.running.words import Words


def evidence(binding: Binding, seen: Observation, name: str, want: Expected, case: Case | None) -> Evidence:
    """Return the evidence for a cause of the wrong values of an output."""
    expected, actual = want.words, seen.outputs[name]
    wrong = [int(i) for i in np.flatnonzero(wrong_elements(seen, name, want))]
    never = (bytes([byte] * width) for byte in (seen.poison, GUARD_PATTERN) for width in (4, 8))
    stale = [int.from_bytes(held, "little", signed=True) for held in never]
    if actual.ndim > 1:
        expected, actual = _row_numbers(expected, actual)
        stale = []
    wanted, found = expected.tolist(), actual.tolist()
    if case is None:
        return Evidence(wanted, found, wrong, stale=stale)
    extent = extent_of(binding.forms[name], case, len(wanted))
    return Evidence(wanted, found, wrong, extent, _guesses(binding, name, case, wanted), stale)


def _guesses(binding: Binding, name: str, case: Case, expected: Sequence[Any]) -> list[Guess]:
    """Return the answers of kernels with known faults for an output of numbers."""
    output, inputs = binding.forms[name], Inputs(case)
    if output.is_rows:
        return []
    per_token = output.per_item if axis_named(output.axis).is_of_tokens else 0
    table = (binding.dialect.row_name or "row_index", binding.dialect.table_rows(case))
    forms = [Guess(cause, values(inputs), is_form=True) for cause, values in output.mistaken.items()]
    forms = [form for form in forms if len(form.values) == len(expected)]
    return [*guesses_for(case, expected, _asking(binding, name, inputs), inputs, per_token, table), *forms]


def _asking(binding: Binding, name: str, inputs: Inputs) -> Ask:
    """Return a function that asks the oracle for one output with some inputs replaced."""
    oracle, output = binding.operation.oracle, binding.forms[name]
    names = inspect.signature(oracle).parameters

    def ask(replaced: dict[str, Any]) -> Sequence[Any] | None:
        if not replaced.keys() <= names.keys():
            return None
        try:
            answer = oracle(**{n: replaced.get(n, inputs[n]) for n in names})
            return output.values(answer, inputs)  # an engine's output may hold no such answer
        except (LookupError, TypeError, ValueError):  # TypeError: it read a don't-care entry
            return None

    return ask


def _row_numbers(expected: Words, actual: Words) -> tuple[Words, Words]:
    """Return each row as the number of the expected row that it equals, -2 if there is none."""
    number = {row.tobytes(): i for i, row in reversed(list(enumerate(expected)))}
    wanted = np.array([number[row.tobytes()] for row in expected], dtype=np.int64)
    return wanted, np.array([number.get(row.tobytes(), -2) for row in actual], dtype=np.int64)


def cause_of_extent(binding: Binding, name: str, where: Mask, case: Case | None, held: str) -> str:
    """Return the likely cause of elements that were wrongly written or not written."""
    extent = None if case is None else extent_of(binding.forms[name], case, len(where))
    if extent is None:
        return ""
    return padding_cause([int(i) for i in np.flatnonzero(where)], extent, len(where), held)


def read_output(binding: Binding, seen: Observation, expected: dict[str, Expected]) -> str:
    """Return a hint if an output was not written: it was returned instead, or was taken for an input."""
    for name, want in expected.items():
        if name not in binding.outputs or name not in seen.before or binding.forms[name].is_in_place:
            continue
        must = want.is_specified
        if not must.any() or not elements(unwritten(seen, name))[must].all():
            continue
        if seen.unread:
            return (
                f"`{name}` is a parameter, so it must be written to; what the function returns counts only "
                f"if `{name}` is no parameter"
            )
        if name in binding.dialect.inputs:
            return (
                f"`{name}` is an output of {binding.operation.name} here and has no value before the call; "
                f"if the function reads it, {_another_way(binding, name)}"
            )
    return ""


def poisoned_outputs(binding: Binding) -> str:
    """Return which outputs hold poison before a call and may be taken for inputs, "" if none may.

    They are inputs of other operations, and this one has further outputs: its only one is not mistaken.
    """
    names = [n for n in binding.outputs if n in binding.dialect.inputs and not binding.forms[n].is_in_place]
    if not names or len(binding.forms) < 2:
        return ""
    told = " and ".join(f"`{name}`" for name in names)
    are = f"is an output of {binding.operation.name}, poison until it is written; to read it"
    if len(names) > 1:
        are = f"are outputs of {binding.operation.name}, poison until they are written; to read one"
    return f"{told} {are}, {_another_way(binding, names[0])}"


def _another_way(binding: Binding, name: str) -> str:
    """Return how a function may read an output that other operations have as an input."""
    way = f"give it another name: DIALECTS[{binding.dialect.name!r}].extend(other={name!r})"
    handed = handed_by(name, binding.operation, binding.dialect)
    return f"{way}; {handed}" if handed else way
