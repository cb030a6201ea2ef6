"""The expected content of outputs: the oracle's value of each element, as arrays."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.oracle import ANY, INPUTS, UNTOUCHED, Case, Inputs
from cumae.oracle.model.rules import require
from cumae.properties.dialects import Floats, Held, Ints, Output, Piece, Rows
from cumae.properties.dialects.held import ITEM_BYTES, IntArray
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.outputs import shape_of
from cumae.properties.operations.own_answers import (
    is_own,
    lengths_told,
    listed,
    require_field,
    require_numbers,
)
from cumae.properties.operations.tracebacks import told_of

PART = 64
"""Rows of a cache that are passed over at once if none of them is written."""
MARKED = 1_024
"""Elements at the end of a buffer that are passed over at once if nothing is written to them."""
State = npt.NDArray[np.uint8]
VALUE, KEEP, FREE, JUDGED, UNORDERED = 0, 1, 2, 3, 4
_watchers: list[Callable[[bool], None]] = []


def watch_definitions(tell: Callable[[bool], None]) -> None:
    """Have ``tell`` called with True before each run of a user's definition, and with False behind it."""
    _watchers.append(tell)


@dataclass(frozen=True, slots=True)
class Expected:
    """The content of an output: ``words`` for state VALUE, the earlier content for KEEP, anything for FREE.

    If ``state`` is JUDGED, every value that the operation's judge accepts is right, and a function writes the
    same one whenever its inputs are the same; ``words`` holds one right answer. UNORDERED is like JUDGED, but
    the values may change places at each call. ``words`` [n] integers or the bits of floats, or uint8 [n, row
    bytes] for rows; ``state`` uint8 [n].
    """

    words: npt.NDArray[Any]
    state: State

    @property
    def is_plain(self) -> bool:
        """Whether every state is VALUE, which is 0."""
        return not self.state.any()

    @property
    def is_specified(self) -> npt.NDArray[np.bool_]:
        """Mask of the elements that must be written."""
        return np.asarray(self.is_repeatable | (self.state == UNORDERED))

    @property
    def is_repeatable(self) -> npt.NDArray[np.bool_]:
        """Mask of the elements that must be written and are equal whenever the inputs are equal."""
        return np.asarray((self.state == VALUE) | (self.state == JUDGED))


def expected_of(
    operation: Operation, outputs: Iterable[Output], inputs: Inputs, held: Callable[[str], Held]
) -> dict[str, Expected]:
    """Return the content of each output by name, from the oracle alone.

    ``held`` returns an input as the dialect holds it; it is called if the rows of an output come from an
    input, and for the oracle's parameters that only the dialect has.
    """
    answer, users = _answer(operation, inputs, held), is_own(operation.oracle)
    found = {}
    for output in outputs:
        if users:
            require_field(operation, output, answer)
        values = output.values(answer, inputs)
        if users and not output.is_rows:
            values = listed(operation, output, values)
            require_numbers(operation, output, values, inputs.case)
        if output.is_rows:
            told = _rows(values, output, inputs, held)
        else:
            told = _numbers(values, output.dtype_for(inputs.case))
        found[output.name] = told if operation.judge is None else _judged(told, output)
    return found


def _answer(operation: Operation, inputs: Inputs, held: Callable[[str], Held]) -> Any:
    """Return the oracle's answer."""
    inputs = with_names_of_the_dialect(operation, inputs, held)
    if not is_own(operation.oracle):
        return inputs.call(operation.oracle)
    for tell in _watchers:
        tell(True)
    try:
        return inputs.call(operation.oracle)
    except Exception as error:
        told = f"{operation.name}: its definition raised {told_of(error, operation.oracle)}"
        if isinstance(error, TypeError) and "'Mark'" in str(error):
            told += "; a Mark stands where nothing may be read"
        raise ValueError(f"{told}, for {lengths_told(inputs.case)}") from error
    finally:
        for tell in _watchers:
            tell(False)


def with_names_of_the_dialect(operation: Operation, inputs: Inputs, held: Callable[[str], Held]) -> Inputs:
    """Return the inputs with those of the oracle's parameters that only the dialect has, as plain numbers."""
    if not (names := names_of_the_dialect(operation.oracle)):
        return inputs
    return Inputs(inputs.case, inputs.previous, {name: _plain(held(name)) for name in names})


@lru_cache(maxsize=256)
def names_of_the_dialect(oracle: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters of an oracle that are no inputs of cumae, but must be a dialect's."""
    return tuple(name for name in inspect.signature(oracle).parameters if name not in INPUTS)


def _plain(held: Held) -> Any:
    """Return an input of a dialect as integers and lists."""
    return held.values.tolist() if isinstance(held, (Floats, Ints)) else held


def _judged(told: Expected, output: Output) -> Expected:
    """Return the required content of an output whose right values a judge decides."""
    state = np.where(told.state == VALUE, JUDGED, told.state)
    if output.unordered:
        state = np.where((state == JUDGED) & (told.words != -1), UNORDERED, state)
    return replace(told, state=state)


def _rows(values: list[Any], output: Output, inputs: Inputs, held: Callable[[str], Held]) -> Expected:
    """Return rows of bytes, each copied or encoded from the row of an input."""
    assert output.pieces is not None
    case = inputs.case
    row_bytes = shape_of(output, case)[-1] * ITEM_BYTES[output.dtype_for(case)]
    words = np.zeros((len(values), row_bytes), dtype=np.uint8)
    named = _places_of_tuples(values)
    if len(named) + values.count(UNTOUCHED) == len(values):
        state = np.full(len(values), KEEP, dtype=np.uint8)
        state[named] = VALUE
    else:
        state = _states(values)
    for kind, piece in output.pieces.items():
        rows = held(piece.name)
        assert isinstance(rows, Rows)
        wanted = named if len(output.pieces) == 1 else [j for j in named if values[j][0] == kind]
        if not wanted:
            continue
        chosen = values if len(wanted) == len(values) else [values[j] for j in wanted]
        # Column by column: an array of many short tuples takes NumPy four times as long.
        columns = [[value[i] for value in chosen] for i in range(1, len(chosen[0]))]
        sources = np.array(columns, dtype=np.int64).T
        if piece.place is not None:
            sources = piece.place(case, sources)
        if piece.in_units:
            content = _units(sources, piece, rows, case, row_bytes)
        else:
            content = rows.content[_places(sources, rows)]
            if piece.encode is not None:
                content = piece.encode(case, content)
            first = piece.start(case) * ITEM_BYTES[rows.dtype]
            content = content[:, first : first + row_bytes]
        words[wanted] = content
    return Expected(words, state)


def _places_of_tuples(values: list[Any]) -> list[int]:
    """Return which values are tuples; of a large cache, few rows are written."""
    found: list[int] = []
    for first in range(0, len(values), PART):
        part = values[first : first + PART]
        if part.count(UNTOUCHED) < len(part):
            found += [first + j for j, value in enumerate(part) if type(value) is tuple]
    return found


def _units(sources: IntArray, piece: Piece, rows: Rows, case: Case, unit_bytes: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of units, each one of several in the row of an input."""
    content = rows.content if piece.encode is None else piece.encode(case, rows.content)
    units = content.reshape(len(content), -1, unit_bytes)
    return np.asarray(units[_places(sources[:, :-1], rows), sources[:, -1]])


def _places(sources: IntArray, rows: Rows) -> IntArray:
    """Return the place of each source among the live rows. Raises ``ValueError`` if it is not one of them."""
    sizes = rows.shape[:-1]
    wanted, live = (np.ravel_multi_index(tuple(one.T), sizes) for one in (sources, rows.live))
    order = np.argsort(live, kind="stable")
    found = np.searchsorted(live, wanted, sorter=order)
    is_live = np.append(live[order], -1)[found] == wanted
    require(bool(is_live.all()), "sources", sources[~is_live][:1].tolist(), "be live rows of the input")
    return np.asarray(order[found], dtype=np.int64)


def _numbers(values: list[Any], dtype: str) -> Expected:
    """Return integers, or the bits of floats."""
    num_marked = _num_marked(values)
    values, last = values[: len(values) - num_marked], values[-1:]
    try:
        words, state = _words(values, dtype), np.zeros(len(values), dtype=np.uint8)
    except TypeError:  # a Mark is no number
        state = _states(values)
        words = _words([0 if v is UNTOUCHED or v is ANY else v for v in values], dtype)
    if num_marked:
        words = np.append(words, np.zeros(num_marked, dtype=words.dtype))
        state = np.append(state, np.repeat(_states(last), num_marked))
    return Expected(words, state)


def _num_marked(values: list[Any]) -> int:
    """Return how many values at the end are one mark; a buffer may hold little else."""
    found = 0
    if values and (values[-1] is UNTOUCHED or values[-1] is ANY):
        for stop in range(len(values), 0, -MARKED):
            part = values[max(stop - MARKED, 0) : stop]
            if part.count(values[-1]) < len(part):
                break
            found += len(part)
    return found


def _words(values: list[Any], dtype: str) -> npt.NDArray[Any]:
    if dtype == "fp32":
        return np.array(values, dtype=np.float32).view(np.int32)
    return np.array(values, dtype=np.int64)


def _states(values: list[Any]) -> State:
    return np.array([KEEP if v is UNTOUCHED else FREE if v is ANY else VALUE for v in values], dtype=np.uint8)
