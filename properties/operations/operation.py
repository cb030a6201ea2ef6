"""An operation: one row of the table that tests, fixtures, command line and figures are derived from."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Dialect, Held, Piece, Rows
from cumae.properties.dialects.held import ITEM_BYTES

State = npt.NDArray[np.uint8]
VALUE, KEEP, FREE, JUDGED, UNORDERED = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Expected:
    """What an output must hold: ``words`` where ``state`` is VALUE, what it held where KEEP, FREE anything.

    Where it is JUDGED something is written, and the same whenever the inputs are, which the operation's judge
    finds right; ``words`` is one such answer. So it is where it is UNORDERED, but values may change places at
    each call. ``words`` [n] integers or the bits of floats, or uint8 [n, row bytes] for rows; ``state`` uint8
    [n].
    """

    words: npt.NDArray[Any]
    state: State

    @property
    def is_specified(self) -> npt.NDArray[np.bool_]:
        """Which elements must be written."""
        return np.asarray(self.is_repeatable | (self.state == UNORDERED))

    @property
    def is_repeatable(self) -> npt.NDArray[np.bool_]:
        """Which elements must be written, and are the same whenever the inputs are."""
        return np.asarray((self.state == VALUE) | (self.state == JUDGED))


@dataclass(frozen=True, slots=True)
class Output:
    """One output: dtype, shape and strides as the dialect ``cumae`` holds it, and what an index counts.

    ``pieces``: for rows, the input that each kind of source points into. ``before``: what an argument
    that is input and output holds before the call. ``starts``: what each element of a buffer that its owner
    keeps from step to step holds before the first. ``optional``: a function that returns its outputs may
    leave this one out. ``unordered``: of a judged operation, the elements that are not -1 may stand in any
    order, and in another one at each call.
    """

    name: str
    dtype: Callable[[Case], str]
    shape: Callable[[Case], tuple[int, ...]]
    axis: str
    rule: str
    strides: Callable[[Case], tuple[int, ...]] | None = None
    pieces: Mapping[str, Piece] | None = None
    before: Callable[[Inputs], Held] | None = None
    starts: int | None = None
    optional: bool = False
    unordered: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. ``features``: what may vary in its cases; ``kernels``: targets shipped here.

    ``resolve`` turns an oracle's row sources into bytes. ``enlarge`` yields the same case at
    addresses beyond 2^31 elements. ``judge``: where many answers are right, says what is wrong with the
    outputs it gets by name, a sentence each, floats as they are; the oracle then tells one answer, or shapes
    and extents only. ``rights``: how many answers of each row are right then: 1, 2 for several, 0 for any.
    """

    name: str
    oracle: Callable[..., Any]
    outputs: tuple[Output, ...]
    features: frozenset[str] = frozenset()
    rule: str = ""
    kernels: tuple[str, ...] = ()
    enlarge: Callable[[Case], Iterator[Case]] | None = None
    judge: Callable[[Inputs, Mapping[str, list[Any]]], list[str]] | None = None
    rights: Callable[[Inputs], list[int]] | None = None

    def expected(
        self, inputs: Inputs, held: Callable[[str], Held], dialect: Dialect, names: Collection[str]
    ) -> dict[str, Expected]:
        """Return what each of the named outputs must hold, from the oracle alone.

        ``held``: how the dialect holds an input, asked where an output's rows come from one.
        """
        answer = inputs.call(self.oracle)
        theirs = dialect.outputs_of(self.name)
        own = {output.name: output for output in self.outputs}
        found = {}
        for name in names:
            if name in theirs:
                output = theirs[name]
                values, width = output.expect(answer, inputs), output.width
                dtype = output.dtype
                row_bytes = width(inputs.case) * ITEM_BYTES[dtype] if width else 0
                found[name] = _expected(values, output.pieces, held, inputs.case, row_bytes, dtype)
            else:
                mine = own[name]
                values, shape = getattr(answer, name), mine.shape(inputs.case)
                dtype = mine.dtype(inputs.case)
                row_bytes = shape[-1] * ITEM_BYTES[dtype]
                found[name] = _expected(values, mine.pieces, held, inputs.case, row_bytes, dtype)
            if self.judge is not None:
                state = np.where(found[name].state == VALUE, JUDGED, found[name].state)
                source = own.get(theirs[name].says if name in theirs else name)
                if source is not None and source.unordered:
                    state = np.where((state == JUDGED) & (found[name].words != -1), UNORDERED, state)
                found[name] = replace(found[name], state=state)
        return found


def _expected(
    values: list[Any],
    pieces: Mapping[str, Piece] | None,
    held: Callable[[str], Held],
    case: Case,
    row_bytes: int,
    dtype: str,
) -> Expected:
    if pieces is None:
        return _from_list(values, dtype)
    words = np.zeros((len(values), row_bytes), dtype=np.uint8)
    state = np.array(
        [KEEP if v is UNTOUCHED else FREE if v is ANY else VALUE for v in values], dtype=np.uint8
    )
    for kind, piece in pieces.items():
        rows = held(piece.name)
        assert isinstance(rows, Rows)
        place = {tuple(index): i for i, index in enumerate(rows.live.tolist())}
        wanted = [j for j, value in enumerate(values) if type(value) is tuple and value[0] == kind]
        content = rows.content[[place[values[j][1:]] for j in wanted]]
        if piece.encode is not None:
            content = piece.encode(case, content)
        first = piece.start(case) * ITEM_BYTES[rows.dtype]
        words[wanted] = content[:, first : first + row_bytes]
    return Expected(words, state)


def _from_list(values: list[Any], dtype: str) -> Expected:
    state = np.zeros(len(values), dtype=np.uint8)
    if UNTOUCHED in values or ANY in values:
        states = {UNTOUCHED: KEEP, ANY: FREE}
        state = np.array([states.get(value, VALUE) for value in values], dtype=np.uint8)
        values = [0 if v in states else v for v in values]
    if dtype == "fp32":
        return Expected(np.array(values, dtype=np.float32).view(np.int32), state)
    return Expected(np.array(values, dtype=np.int64), state)
