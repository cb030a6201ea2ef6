"""An operation: one row of the table that tests, fixtures, command line and figures are derived from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Dialect, Held, Rows

Axis = Literal["token", "request_start", "slot", "key_row", "step"]
State = npt.NDArray[np.uint8]
VALUE, KEEP, FREE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Expected:
    """What an output must hold: ``words`` where ``state`` is VALUE, what it held where KEEP, FREE anything.

    ``words`` [n] integers, or uint8 [n, row bytes] for rows; ``state`` uint8 [n].
    """

    words: npt.NDArray[Any]
    state: State


@dataclass(frozen=True, slots=True)
class Output:
    """One output: dtype, shape and strides as the dialect ``cumae`` holds it, and what an index counts."""

    name: str
    dtype: Callable[[Case], str]
    shape: Callable[[Case], tuple[int, ...]]
    axis: Axis
    rule: str
    strides: Callable[[Case], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. ``features``: what may vary in its cases; ``kernels``: targets shipped here.

    ``resolve`` turns an oracle's row sources into bytes. ``enlarge`` yields the same case at
    addresses beyond 2^31 elements.
    """

    name: str
    oracle: Callable[..., Any]
    outputs: tuple[Output, ...]
    features: frozenset[str]
    rule: str
    kernels: tuple[str, ...]
    enlarge: Callable[[Case], Iterator[Case]] | None = None

    def expected(self, inputs: Inputs, held: Mapping[str, Held], dialect: Dialect) -> dict[str, Expected]:
        """Return what each output of the dialect must hold, from the oracle alone."""
        answer = inputs.call(self.oracle)
        found = {o.name: self._expect(getattr(answer, o.name), o, inputs, held) for o in self.outputs}
        for name, output in dialect.outputs_of(self.name).items():
            found[name] = _from_list(output.expect(answer, inputs))
        return found

    def _expect(
        self, values: list[Any], output: Output, inputs: Inputs, held: Mapping[str, Held]
    ) -> Expected:
        if output.axis == "key_row":
            cache, new_rows = held["cache"], held["new_rows"]
            assert isinstance(cache, Rows) and isinstance(new_rows, Rows)
            return _from_sources(values, cache, new_rows, inputs.case.options.row_bytes)
        return _from_list(values)


def _from_list(values: list[Any]) -> Expected:
    if UNTOUCHED not in values and ANY not in values:
        return Expected(np.array(values, dtype=np.int64), np.zeros(len(values), dtype=np.uint8))
    states = {UNTOUCHED: KEEP, ANY: FREE}
    state = np.array([states.get(value, VALUE) for value in values], dtype=np.uint8)
    return Expected(np.array([0 if v in states else v for v in values], dtype=np.int64), state)


def _from_sources(sources: list[Any], cache: Rows, new_rows: Rows, row_bytes: int) -> Expected:
    place = {(int(block), int(offset)): i for i, (block, offset) in enumerate(cache.live)}
    words = np.zeros((len(sources), row_bytes), dtype=np.uint8)
    state = np.zeros(len(sources), dtype=np.uint8)
    for j, source in enumerate(sources):
        if source is UNTOUCHED:
            state[j] = KEEP
        elif source[0] == "cache":
            words[j] = cache.content[place[source[1:]]]
        else:
            words[j] = new_rows.content[source[1]]
    return Expected(words, state)
