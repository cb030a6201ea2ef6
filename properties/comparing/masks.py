"""Masks over the elements of an output: unwritten ones and wrong ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.properties.operations import KEEP, VALUE, Expected
from cumae.properties.running.observation import Observation

Mask = npt.NDArray[np.bool_]


def elements(words: Any) -> Mask:
    """Return a mask of elements from a mask of words; a row is marked if any of its bytes is."""
    if words.ndim == 1:
        return np.asarray(words)
    words, found = np.ascontiguousarray(words), np.zeros(len(words), dtype=bool)
    if words.shape[-1] % 8 == 0:
        words = words.view(np.uint64)
    # `any` of each short row takes longer: of two bytes, with few rows marked, forty times.
    found[np.flatnonzero(words) // max(words.shape[-1], 1)] = True
    return found


def unwritten(seen: Observation, name: str) -> Mask:
    """Return which words of an output (bytes, for rows) still have their value from before the call."""
    if name not in seen.unwritten:
        seen.unwritten[name] = np.asarray(seen.outputs[name] == seen.before[name])
    return seen.unwritten[name]


def wrong_elements(seen: Observation, name: str, want: Expected) -> Mask:
    """Return which elements of an output were written and differ from the expected value."""
    if want.is_plain and np.array_equal(seen.outputs[name], want.words):
        return np.zeros(len(want.state), dtype=bool)
    at = np.flatnonzero(want.state == VALUE)  # few rows of a large cache have a value
    wrong = seen.outputs[name][at] != want.words[at]
    if name not in seen.opaque:
        wrong &= ~unwritten(seen, name)[at]
    return _marked(len(want.state), at, wrong)


def never_written(first: Observation, second: Observation, name: str, want: Expected) -> Mask:
    """Return which specified elements two calls, on different content, left as they were."""
    left = unwritten(first, name) & unwritten(second, name)
    at = np.flatnonzero(want.is_specified & elements(left))  # mostly none
    wanted = want.words[at]
    wrong = (first.outputs[name][at] != wanted) | (second.outputs[name][at] != wanted)
    return _marked(len(want.state), at, wrong & left[at])


def has_written_all(seen: Observation, expected: Mapping[str, Expected]) -> bool:
    """Return whether no word of a specified element is as before the call, and none must keep its value."""
    for name, words in seen.outputs.items():
        want = expected[name]
        if words.shape != want.words.shape:
            return False
        if want.is_plain:
            if unwritten(seen, name).any():
                return False
        elif np.any(want.state == KEEP) or unwritten(seen, name)[want.is_specified].any():
            return False
    return True


def _marked(count: int, at: npt.NDArray[np.intp], words: Mask) -> Mask:
    """Return a mask of so many elements in which those ``at`` places with a marked word are marked."""
    found = np.zeros(count, dtype=bool)
    found[at] = elements(words)
    return found
