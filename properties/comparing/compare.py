"""Comparing whole buffers, element by element, exactly."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.cause import (
    Evidence,
    Extent,
    Guess,
    likely_cause,
    padding_cause,
)
from cumae.properties.comparing.guesses import Ask, guesses_for
from cumae.properties.comparing.judged import wrong_answer
from cumae.properties.operations import KEEP, VALUE, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.items import axis_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.memory import GUARD_PATTERN, Words
from cumae.properties.running.observation import Observation

Mask = npt.NDArray[np.bool_]
MOST_MARKED = 4096


def unwritten(observation: Observation, name: str) -> Mask:
    """Return which words of an output (bytes, for rows) still hold what they held before the call."""
    return np.asarray(observation.outputs[name] == observation.before[name])


def wrong_values(
    check: str,
    binding: Binding,
    seen: Observation,
    expected: dict[str, Expected],
    case: Case | None = None,
) -> Finding | None:
    """Return the first element that was written and differs from the oracle's value, or a wrong dtype.

    With the ``case`` that was run, causes that need more than the values can be told.
    """
    for name, words in seen.outputs.items():
        want = expected[name]
        if name in seen.mistyped:
            has, must = seen.dtypes[name], seen.mistyped[name]
            message = f"`{name}` has dtype {has}, must have {must}"
            return Finding(check, message, rule_of(binding, name), output=name)
        if words.shape != want.words.shape:
            found = _wrong_shape(check, binding, name, seen, want)
            return replace(found, cause=read_output(binding, seen, expected))
        differs = wrong_elements(seen, name, want)
        if differs.any():
            cause = read_output(binding, seen, expected)
            cause = cause or likely_cause(**evidence(binding, seen, name, want, case)._asdict())
            what = "differs from the oracle"
            found = difference(check, binding, name, differs, want.words, words, what, cause)
            found = with_strays(found, seen)
            return found if case is None else replace(found, rows=_rows(binding, case))
    return None if case is None else wrong_answer(check, binding, seen, expected, case)


def with_strays(found: Finding, seen: Observation) -> Finding:
    """Return a finding of wrong values that says which accesses of the call were masked off."""
    if seen.watch is None or not seen.watch.outside:
        return found
    count = seen.watch.num_outside
    told = "1 access outside every tensor was masked off: "
    if count > 1:
        told = f"{count} accesses outside every tensor were masked off, the first: "
    told += str(seen.watch.outside[0])
    return replace(found, message=f"{found.message}; {told}")


def _wrong_shape(check: str, binding: Binding, name: str, seen: Observation, want: Expected) -> Finding:
    must = list(seen.shapes.get(name, want.words.shape))
    message = f"`{name}` has shape {list(seen.outputs[name].shape)}, must have {must}"
    return Finding(check, message, rule_of(binding, name), output=name)


def wrong_elements(seen: Observation, name: str, want: Expected) -> Mask:
    """Return which elements of an output were written and differ from what they must hold."""
    words = seen.outputs[name]
    written = np.ones(words.shape, dtype=bool) if name in seen.opaque else ~unwritten(seen, name)
    return np.asarray(_elements(written & (words != want.words)) & (want.state == VALUE))


def wrong_extent(
    check: str,
    binding: Binding,
    first: Observation,
    second: Observation,
    expected: dict[str, Expected],
    case: Case | None = None,
) -> Finding | None:
    """Return the first element that was not written but should be, or was and should not."""
    for name in first.outputs:
        if name not in second.outputs:
            return _not_returned(check, binding, name, "by a second call")
        if name in first.opaque:
            continue
        want, words = expected[name], first.outputs[name]
        if words.shape != want.words.shape or second.outputs[name].shape != words.shape:
            return _wrong_shape(check, binding, name, first, want)
        kept = unwritten(first, name) & unwritten(second, name)
        wrong = (words != want.words) | (second.outputs[name] != want.words)
        missing = _elements(kept & wrong) & want.is_specified
        if missing.any():
            cause = read_output(binding, first, {name: want})
            cause = cause or _wrong_extent(binding, name, missing, case, "is left as it was")
            what = "was never written"
            found = difference(check, binding, name, missing, want.words, words, what, cause)
            found = with_strays(found, first)
            found = found if case is None else replace(found, rows=_rows(binding, case))
            return replace(found, actual="what was there before the call")
        excess = _elements(~unwritten(first, name) | ~unwritten(second, name)) & (want.state == KEEP)
        if excess.any() and name not in binding.returned:
            cause = _wrong_extent(binding, name, excess, case, "is written")
            what = "was written and must keep what it held"
            return difference(check, binding, name, excess, want.words, words, what, cause)
    return None


def changed(
    check: str, binding: Binding, base: Observation, other: Observation, live: dict[str, Mask], because: str
) -> Finding | None:
    """Return the first specified element in which two observations of one case differ."""
    for name, words in base.outputs.items():
        if name not in other.outputs:
            return _not_returned(check, binding, name, because)
        found = other.outputs[name]
        if found.shape != words.shape:
            return Finding(
                check, f"`{name}` changed its shape {because}", rule_of(binding, name), output=name
            )
        if len(words) != len(live[name]):
            continue  # not its shape: `agrees` tells
        differs = _elements(words != found) & live[name]
        if differs.any():
            return difference(check, binding, name, differs, words, found, f"changed {because}")
    return None


def _not_returned(check: str, binding: Binding, name: str, when: str) -> Finding:
    return Finding(check, f"`{name}` was not returned {when}", rule_of(binding, name), output=name)


def difference(
    check: str,
    binding: Binding,
    name: str,
    where: Mask,
    expected: Words,
    actual: Words,
    what: str,
    cause: str = "",
) -> Finding:
    """Return the finding for the first element of ``where``."""
    wrong = np.flatnonzero(where)
    index = int(wrong[0])
    per_item, is_fp32 = _per_item(binding, name), binding.is_fp32(name)
    first = int(np.argmax(expected[index] != actual[index]))
    return Finding(
        check,
        f"`{name}[{index}]` {what}",
        rule_of(binding, name),
        output=name,
        index=index // per_item,
        expected=_text(expected[index], is_fp32, first),
        actual=_text(actual[index], is_fp32, first),
        count=len(wrong),
        total=len(where),
        axis=axis_of(binding, name),
        wrong=tuple(int(i) // per_item for i in wrong[:MOST_MARKED]),
        cause=cause,
    )


def evidence(
    binding: Binding, seen: Observation, name: str, expected_of: Expected, case: Case | None
) -> Evidence:
    """Return what a cause of the wrong values of an output is judged by."""
    expected, actual = expected_of.words, seen.outputs[name]
    wrong = [int(i) for i in np.flatnonzero(wrong_elements(seen, name, expected_of))]
    never = (bytes([byte] * width) for byte in (seen.poison, GUARD_PATTERN) for width in (4, 8))
    stale = [int.from_bytes(held, "little", signed=True) for held in never]
    if actual.ndim > 1:
        expected, actual = _row_numbers(expected, actual)
        stale = []
    want, found = expected.tolist(), actual.tolist()
    if case is None:
        return Evidence(want, found, wrong, stale=stale)
    guesses: list[Guess] = []
    if not binding.is_rows(name):
        axis, per_item = axis_of(binding, name), _per_item(binding, name)
        inputs = Inputs(case)
        ask = _asking(binding, name, inputs)
        per_token = per_item if axis in ("token", "slot") else 0
        table = (binding.dialect.row_name or "row_index", binding.dialect.table_rows(case))
        guesses = guesses_for(case, want, ask, inputs, per_token, table)
    return Evidence(want, found, wrong, _extent(binding, name, case, len(want)), guesses, stale)


def _rows(binding: Binding, case: Case) -> tuple[int, ...]:
    """Return the table row of each request where that is not its index and the operation reads the table."""
    rows = binding.dialect.table_rows(case)
    looked_up = "row_index" in binding.operation.features and rows != list(range(len(rows)))
    return tuple(rows) if looked_up else ()


def read_output(binding: Binding, seen: Observation, expected: dict[str, Expected]) -> str:
    """Return that an output was taken for an input: one that has the name of an input and is not written."""
    for name, want in expected.items():
        if name not in binding.outputs or name not in seen.before or binding.is_in_place(name):
            continue
        must = want.is_specified
        if name in binding.dialect.inputs and must.any() and _elements(unwritten(seen, name))[must].all():
            return (
                f"`{name}` is an output of {binding.operation.name} here, and holds nothing before the call; "
                f"to read it, name it otherwise: DIALECTS[{binding.dialect.name!r}].extend(other={name!r})"
            )
    return ""


def _wrong_extent(binding: Binding, name: str, where: Mask, case: Case | None, held: str) -> str:
    """Return the likely cause of elements that were not written, or should not have been."""
    extent = None if case is None else _extent(binding, name, case, len(where))
    if extent is None:
        return ""
    return padding_cause([int(i) for i in np.flatnonzero(where)], extent, len(where), held)


def _extent(binding: Binding, name: str, case: Case, length: int) -> Extent | None:
    """Return how many elements of an output are live, and how many are there up to the padded count."""
    per_item, num_requests, topk = (
        _per_item(binding, name),
        len(case.batch.requests),
        case.options.selection.topk,
    )
    extents = {
        "token": Extent(case.batch.num_tokens, case.num_tokens_padded),
        "slot": Extent(case.batch.num_tokens, case.num_tokens_padded),
        "key_row": Extent(case.num_keys, case.num_keys),
        "request_start": Extent(num_requests + 1, case.num_requests_padded + 1),
        "selected_key": Extent(case.batch.num_tokens * topk, case.num_tokens_padded * topk),
        "step": Extent(1, 1),
    }
    axis = axis_of(binding, name)
    if axis in ("chunk", "chunk_request", "chunk_start"):
        return Extent(length, length)
    extent = extents.get(axis)
    return extent and Extent(extent.num_live * per_item, extent.num_padded * per_item)


def _asking(binding: Binding, name: str, inputs: Inputs) -> Ask:
    """Return what asks the oracle for one output with some inputs replaced."""
    operation = binding.operation
    theirs = binding.dialect.outputs_of(operation.name).get(name)
    names = inspect.signature(operation.oracle).parameters

    def ask(replaced: dict[str, Any]) -> Sequence[Any] | None:
        if not replaced.keys() <= names.keys():
            return None
        try:
            answer = operation.oracle(**{n: replaced.get(n, inputs[n]) for n in names})
        except (LookupError, TypeError, ValueError):  # TypeError: it would have to read garbage
            return None
        values: Sequence[Any] = theirs.expect(answer, inputs) if theirs else getattr(answer, name)
        return values

    return ask


def _row_numbers(expected: Words, actual: Words) -> tuple[Words, Words]:
    """Return rows as the number of the expected row they equal, -2 for one that is none of them."""
    number = {row.tobytes(): i for i, row in reversed(list(enumerate(expected)))}
    wanted = np.array([number[row.tobytes()] for row in expected], dtype=np.int64)
    return wanted, np.array([number.get(row.tobytes(), -2) for row in actual], dtype=np.int64)


def rule_of(binding: Binding, name: str) -> str:
    """Return the sentence that an output must obey."""
    return next((o.rule for o in binding.operation.outputs if o.name == name), binding.operation.rule)


def _per_item(binding: Binding, name: str) -> int:
    theirs = binding.dialect.outputs_of(binding.operation.name).get(name)
    return theirs.per_item if theirs else 1


def _elements(words: Any) -> Mask:
    return words.any(axis=-1) if words.ndim > 1 else np.asarray(words)


def _text(word: Any, is_fp32: bool, first: int) -> str:
    """Return a value as text; of a row eight bytes, among them the first that differs."""
    if is_fp32:
        return f"{np.int32(word).view(np.float32):.9g}"
    if np.ndim(word) == 0:
        return str(int(word))
    start = first // 8 * 8
    shown = " ".join(f"{int(byte):02x}" for byte in word[start : start + 8])
    before, behind = f"from byte {start}: " if start else "", " …" if start + 8 < len(word) else ""
    return f"{before}{shown}{behind}"
