"""Sources of a generator's choices: Hypothesis, which shrinks them, or a seed, which is fast."""

import random
from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

T = TypeVar("T")
_STEP, _SALT, _FACTOR = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 0xBF58476D1CE4E5B9


class Choices(Protocol):
    """The three draws that rules use; the first value of each is the simplest.

    ``sizes``: lengths that the rules prefer now and then; ``contexts``: cached lengths, preferred often, as
    are ``queries``, numbers of new tokens.
    """

    sizes: Sequence[int]
    contexts: Sequence[int]
    queries: Sequence[int]

    def integer(self, low: int, high: int) -> int:
        """Return an integer of ``[low, high]``."""

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""

    def chance(self, percent: int) -> bool:
        """Return True in about ``percent`` of 100 draws."""


class HypothesisChoices:
    """Choices drawn through Hypothesis; they shrink towards the first value."""

    def __init__(self, draw: st.DrawFn, sizes: Sequence[int] = ()) -> None:
        self._draw = draw
        self.sizes = sizes
        self.contexts: Sequence[int] = ()
        self.queries: Sequence[int] = ()

    def integer(self, low: int, high: int) -> int:
        """Return an integer of ``[low, high]``."""
        return low if low == high else self._draw(_integers(low, high))

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.integer(0, len(values) - 1)]

    def chance(self, percent: int) -> bool:
        """Return True in about ``percent`` of 100 draws; shrinks to False."""
        return self.integer(0, 99) >= 100 - percent


_integers = lru_cache(maxsize=4096)(st.integers)
"""The strategies: to make one takes as long as to draw from it."""


class SeededChoices:
    """Choices drawn from one seed, without Hypothesis: about a hundredth of the cost, no shrinking."""

    def __init__(
        self,
        seed: int,
        sizes: Sequence[int] = (),
        contexts: Sequence[int] = (),
        queries: Sequence[int] = (),
    ) -> None:
        self._random = random.Random(seed).random
        self.sizes = sizes
        self.contexts = contexts
        self.queries = queries

    def integer(self, low: int, high: int) -> int:
        """Return an integer of ``[low, high]``."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[int(self._random() * len(values))]

    def chance(self, percent: int) -> bool:
        """Return True in about ``percent`` of 100 draws."""
        return self._random() * 100 < percent


def mixed(number: int, salt: int = 0) -> int:
    """Return 64 bits in which numbers that follow each other have nothing in common.

    >>> [mixed(number) % 4 for number in range(12)]
    [2, 3, 2, 2, 3, 0, 0, 0, 2, 1, 3, 0]
    """
    bits = (number + 1) * _STEP + salt * _SALT & (1 << 64) - 1
    bits = (bits ^ bits >> 31) * _FACTOR & (1 << 64) - 1
    return bits ^ bits >> 29


def all_mixed(count: int, salt: int = 0) -> npt.NDArray[np.uint64]:
    """Return ``mixed`` of the first numbers, uint64 [count]."""
    with np.errstate(over="ignore"):
        first = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP)
        bits = first + np.uint64(salt * _SALT & (1 << 64) - 1)
        bits = (bits ^ bits >> np.uint64(31)) * np.uint64(_FACTOR)
    return np.asarray(bits ^ bits >> np.uint64(29), dtype=np.uint64)


def draw_permutation(choices: Choices, size: int) -> tuple[int, int]:
    """Return (step, first) so that ``(first + i * step) % size`` visits ``size`` values once each."""
    step = choices.pick((1, 3, 5, 7, 11, 17))
    while gcd(step, size) > 1:
        step += 1
    return step, choices.integer(0, max(0, min(size - 1, 9)))
