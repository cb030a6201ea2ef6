"""Comparing whole buffers, element by element, exactly."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.properties.operations import KEEP, VALUE, Expected
from cumae.properties.running.binding import Binding
from cumae.properties.running.memory import Words, poison_words
from cumae.properties.running.observe import Observation
from cumae.properties.verdict import Finding

Mask = npt.NDArray[np.bool_]


def held_poison(observation: Observation, name: str) -> Mask:
    """Return which words of an output (bytes, for rows) still hold the poison."""
    words = observation.outputs[name]
    return np.asarray(words == poison_words(observation.poison, words))


def wrong_values(
    check: str, binding: Binding, seen: Observation, expected: dict[str, Expected]
) -> Finding | None:
    """Return the first element that was written and differs from the oracle's value."""
    for name, words in seen.outputs.items():
        want = expected[name]
        if words.shape != want.words.shape:
            return Finding(
                check,
                f"`{name}` has shape {list(words.shape)}, must have {list(want.words.shape)}",
                rule_of(binding, name),
                output=name,
            )
        written = np.ones(words.shape, dtype=bool) if name in binding.returned else ~held_poison(seen, name)
        differs = _elements(written & (words != want.words)) & (want.state == VALUE)
        if differs.any():
            return difference(check, binding, name, differs, want.words, words, "differs from the oracle")
    return None


def wrong_extent(
    check: str, binding: Binding, first: Observation, second: Observation, expected: dict[str, Expected]
) -> Finding | None:
    """Return the first element that was not written but should be, or was and should not."""
    for name in binding.outputs:
        want, words = expected[name], first.outputs[name]
        kept = held_poison(first, name) & held_poison(second, name)
        missing = _elements(kept) & (want.state == VALUE)
        if missing.any():
            found = difference(check, binding, name, missing, want.words, words, "was never written")
            return replace(found, actual="what was there before the call")
        excess = _elements(~held_poison(first, name) | ~held_poison(second, name)) & (want.state == KEEP)
        if excess.any():
            return difference(
                check, binding, name, excess, want.words, words, "was written and must keep what it held"
            )
    return None


def changed(
    check: str, binding: Binding, base: Observation, other: Observation, live: dict[str, Mask], because: str
) -> Finding | None:
    """Return the first specified element in which two observations of one case differ."""
    for name, words in base.outputs.items():
        found = other.outputs[name]
        if found.shape != words.shape:
            return Finding(
                check, f"`{name}` changed its shape {because}", rule_of(binding, name), output=name
            )
        differs = _elements(words != found) & live[name]
        if differs.any():
            return difference(check, binding, name, differs, words, found, f"changed {because}")
    return None


def difference(
    check: str, binding: Binding, name: str, where: Mask, expected: Words, actual: Words, what: str
) -> Finding:
    """Return the finding for the first element of ``where``."""
    wrong = np.flatnonzero(where)
    index = int(wrong[0])
    theirs = binding.dialect.outputs_of(binding.operation.name).get(name)
    per_item = theirs.per_item if theirs else 1
    return Finding(
        check,
        f"`{name}[{index}]` {what}",
        rule_of(binding, name),
        output=name,
        index=index // per_item,
        expected=_text(expected[index]),
        actual=_text(actual[index]),
        count=len(wrong),
        total=len(where),
        axis=axis_of(binding, name),
        wrong=tuple(int(i) // per_item for i in wrong[:64]),
    )


def rule_of(binding: Binding, name: str) -> str:
    """Return the sentence that an output must obey."""
    return next((o.rule for o in binding.operation.outputs if o.name == name), binding.operation.rule)


def axis_of(binding: Binding, name: str) -> str:
    """Return what an index into an output counts."""
    theirs = binding.dialect.outputs_of(binding.operation.name).get(name)
    return theirs.axis if theirs else next(o.axis for o in binding.operation.outputs if o.name == name)


def _elements(words: Any) -> Mask:
    return words.any(axis=-1) if words.ndim > 1 else np.asarray(words)


def _text(word: Any) -> str:
    if np.ndim(word) == 0:
        return str(int(word))
    shown = " ".join(f"{int(byte):02x}" for byte in word[:8])
    return f"{shown} …" if len(word) > 8 else shown
