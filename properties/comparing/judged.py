"""Findings of an operation's validator, for outputs with many right answers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cumae.oracle import Case, Fault, Inputs
from cumae.properties.comparing.masks import elements, unwritten
from cumae.properties.operations import UNORDERED, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.expected import with_names_of_the_dialect
from cumae.properties.operations.items import is_padding, without_padding
from cumae.properties.operations.own_answers import is_own, lengths_told
from cumae.properties.operations.strides import held_input
from cumae.properties.operations.tracebacks import told_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import Observation
from cumae.properties.running.words import Words


def wrong_answer(
    check: str, binding: Binding, seen: Observation, expected: dict[str, Expected], case: Case
) -> Finding | None:
    """Return the first fault that the validator finds, placed at its token if it names a row.

    Return None if an element was never written: `writes_everything` reports that.
    """
    if binding.operation.judge is None or any(_has_gaps(seen, name, want) for name, want in expected.items()):
        return None
    outputs, forms = seen.outputs, binding.forms
    if binding.domain.padding in ("untouched", "any"):
        live = {name: ~is_padding(forms[name], case, len(words)) for name, words in outputs.items()}
        outputs = {name: words[live[name]] for name, words in outputs.items()}
        case = without_padding(case)
    found = {forms[name].follows: _values(words, forms[name].is_fp32) for name, words in outputs.items()}
    faults = _faults(binding, Inputs.of(case), found)
    if not faults:
        return None
    row = faults[0].row if isinstance(faults[0], Fault) else -1
    place: dict[str, Any] = {"index": row, "axis": "token"} if row >= 0 else {}
    return Finding(check, faults[0], binding.operation.rule, count=len(faults), **place)


def _faults(binding: Binding, inputs: Inputs, found: dict[str, list[Any]]) -> Sequence[str]:
    """Return the faults that the operation's judge names. Raises ``ValueError`` if a user's judge raises."""
    operation = binding.operation
    judge = operation.judge
    assert judge is not None
    inputs = with_names_of_the_dialect(operation, inputs, partial(held_input, binding, inputs=inputs))
    if not is_own(judge):
        return judge(inputs, found)
    try:
        return judge(inputs, found)
    except Exception as error:
        told = f"{operation.name}: its judge raised {told_of(error, judge)}"
        raise ValueError(f"{told}, for {lengths_told(inputs.case)}") from error


def wrong_besides(
    check: str,
    binding: Binding,
    base: Observation,
    other: Observation,
    expected: dict[str, Expected],
    case: Case,
    because: str,
) -> Finding | None:
    """Return the fault that the validator finds in another observation of a case and not in the first.

    This is for outputs in any order, whose elements cannot be compared one by one.
    """
    if not any(bool((want.state == UNORDERED).any()) for want in expected.values()):
        return None
    if base.is_misshapen or other.is_misshapen or _is_same(base, other):
        return None
    found = wrong_answer(check, binding, other, expected, case)
    if found is None or wrong_answer(check, binding, base, expected, case) is not None:
        return None
    return replace(found, message=f"{found.message}, {because}")


def _is_same(base: Observation, other: Observation) -> bool:
    """Return whether two observations hold the same words; to judge a large answer takes long."""
    words = other.outputs
    same = base.outputs.keys() == words.keys()
    return same and all(np.array_equal(one, words[name]) for name, one in base.outputs.items())


def _has_gaps(seen: Observation, name: str, want: Expected) -> bool:
    """Return whether an element that must be written still has its value from before the call."""
    if name in seen.opaque or name not in seen.outputs:
        return False
    return bool((elements(unwritten(seen, name)) & want.is_specified).any())


def _values(words: Words, is_fp32: bool) -> list[Any]:
    """Return the elements of an output as numbers."""
    values: list[Any] = (words.view(np.float32) if is_fp32 else words).tolist()
    return values
