"""Masks over the elements of an output: unwritten ones and wrong ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.properties.operations import VALUE, Expected
from cumae.properties.running.observation import Observation

Mask = npt.NDArray[np.bool_]


def elements(words: Any) -> Mask:
    """Return a mask of elements from a mask of words; a row is marked if any of its bytes is."""
    return words.any(axis=-1) if words.ndim > 1 else np.asarray(words)


def unwritten(seen: Observation, name: str) -> Mask:
    """Return which words of an output (bytes, for rows) still have their value from before the call."""
    return np.asarray(seen.outputs[name] == seen.before[name])


def wrong_elements(seen: Observation, name: str, want: Expected) -> Mask:
    """Return which elements of an output were written and differ from the expected value."""
    words = seen.outputs[name]
    written = np.ones(words.shape, dtype=bool) if name in seen.opaque else ~unwritten(seen, name)
    return np.asarray(elements(written & (words != want.words)) & (want.state == VALUE))
