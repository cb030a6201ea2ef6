"""The expected cost of a case, learnt from the cases that ran; it keeps a search within its time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case

UNUSUAL = 4.0
"""A case is left out or stopped only if it costs more than this many times the cheapest."""
LEAP = 16.0
"""A fit predicts cases up to this many times the requests or tokens of the largest known case."""
MUCH_LESS = 0.8
"""A fit stays until a new size is known, or one costs less than this share of what was known."""
_LEAST, _ROUNDS = 1e-4, 200
Size = tuple[int, int, int]


def size(case: Case) -> Size:
    """Return requests, tokens and keys of a case, padding included."""
    keys = sum([request.context_len for request in case.batch.requests]) + case.batch.num_tokens
    return case.num_requests_padded, case.num_tokens_padded, keys


@dataclass(slots=True)
class Costs:
    """Seconds of the first check of cases, by their size.

    A case that is smaller in every size than a known one is expected to cost no more. Other cases are
    predicted by the best fit, without negative terms, of a constant, requests, tokens, keys, and the
    squares and product of requests and tokens. A case much larger than all known ones is expected to grow
    with the square of its size, because small cases do not show the growth.
    """

    known: dict[Size, tuple[Size, float]] = field(default_factory=dict)
    _cheapest: float = inf
    _largest: Size = (0, 0, 0)
    _dearest: float = 0.0
    _terms: npt.NDArray[np.float64] | None = None

    def learn(self, case: Case, seconds: float) -> None:
        """Record the cost of a case; among cases of about one size, keep the cheapest."""
        there = size(case)
        about = tuple(number.bit_length() for number in there)
        self._cheapest = min(self._cheapest, seconds)
        kept = self.known.get(about)  # type: ignore[arg-type]
        if kept is None or seconds < kept[1]:
            self.known[about] = (there, seconds)  # type: ignore[index]
            requests, tokens, keys = map(max, there, self._largest)
            self._largest, self._dearest = (requests, tokens, keys), max(seconds, self._dearest)
            if kept is None or seconds < MUCH_LESS * kept[1]:
                self._terms = None

    def cheapest(self) -> float:
        """Return the cost of the cheapest case."""
        return self._cheapest if self.known else 0.0

    def foretells_at_most(self, most: float, case: Case) -> bool:
        """Return whether a case costs no more than so many seconds, as far as known cases tell without a fit.

        A case costs no more than one that is larger in every size, nor more than the dearest one that was
        ever learnt, grown with the square of its size.
        """
        if not self.known:
            return False
        here = size(case)
        grown = max(1.0, *[own / max(1, known) for own, known in zip(here, self._largest, strict=True)])
        if self._dearest * grown * grown <= most:
            return True
        return any(seconds <= most for seconds in self._of_larger(here))

    def _of_larger(self, here: Size) -> Iterator[float]:
        requests, tokens, keys = here
        for (r, t, k), seconds in self.known.values():
            if requests <= r and tokens <= t and keys <= k:
                yield seconds

    def foretold(self, case: Case) -> float:
        """Return the predicted cost of a case, 0 before any was run."""
        here = size(case)
        if not self.known:
            return 0.0
        larger = [*self._of_larger(here)]
        if larger:
            return min(larger)
        if self._terms is None:
            self._terms = _fitted(list(self.known.values()))
        return max(float(_powers(here) @ self._terms), self._after_a_leap(here))

    def _after_a_leap(self, here: Size) -> float:
        """Return the cost of a case much larger than all, by the square of its size; 0 for other cases."""
        ratio = max(here[i] / max(1, *(there[i] for there, _ in self.known.values())) for i in (0, 1))
        if ratio <= LEAP:
            return 0.0
        cheapest, dearest = self.cheapest(), max(seconds for _, seconds in self.known.values())
        return cheapest + (dearest - cheapest) * ratio**2


def _powers(there: Size) -> npt.NDArray[np.float64]:
    requests, tokens, keys = map(float, there)
    return np.array([1.0, requests, tokens, keys, requests**2, tokens**2, requests * tokens])


def _fitted(known: list[tuple[Size, float]]) -> npt.NDArray[np.float64]:
    """Return the non-negative factors with the least relative error, found by coordinate descent."""
    wanted = np.array([max(seconds, _LEAST) for _, seconds in known])
    columns = np.array([_powers(there) for there, _ in known]) / wanted[:, None]
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-30)
    columns /= scale
    factors = np.zeros(columns.shape[1])
    left = np.ones(len(known))
    squares = np.maximum((columns**2).sum(axis=0), 1e-30)
    for _ in range(_ROUNDS):
        for j in range(len(factors)):
            moved = max(0.0, factors[j] + columns[:, j] @ left / squares[j])
            left -= columns[:, j] * (moved - factors[j])
            factors[j] = moved
    return np.asarray(factors / scale)
