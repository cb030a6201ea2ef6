"""Kernel arguments as plain arrays: integers with garbage filled in, and rows of bytes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cumae.oracle import GARBAGE, GarbageKind, Inputs, Layout

IntArray = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]
ITEM_BYTES = {"bool": 1, "uint8": 1, "bf16": 2, "fp16": 2, "int32": 4, "fp32": 4, "int64": 8}
FLOATS, WIDE = ("bf16", "fp16", "fp32"), 32
"""Dtypes of numbers, and the numbers of a row of which one is -0.0."""
_INFINITY = {"bf16": 0x7F80, "fp16": 0x7C00, "fp32": 0x7F80_0000}
SEEDS = 8
"""Tensors have seeds below this one."""
_GARBAGE_BYTES = {"minus_one": 0xFF, "zero": 0x00, "plausible": 0x3C, "huge": 0x7F}


@dataclass(frozen=True, slots=True)
class Ints:
    """A tensor of integers or booleans: values as int64, ``dtype`` and element ``strides`` as held.

    ``num_bare_columns``: columns of the tensor after those with values; they are never set.
    """

    values: IntArray
    dtype: str
    strides: tuple[int, ...]
    num_bare_columns: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        *rows, width = self.values.shape
        return (*rows, width + self.num_bare_columns)


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor whose last dimension is a row of opaque bytes.

    ``live`` int [n, len(shape) - 1]: indices of the live rows; ``content`` uint8 [n, row bytes]: their bytes.
    Every other byte is ``fill``.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    live: IntArray
    content: ByteArray
    fill: int


@dataclass(frozen=True, slots=True)
class Floats:
    """A tensor of bf16, fp16 or fp32 numbers; ``dtype`` holds each of the float64 values exactly.

    ``row_gap``: elements between two rows.
    """

    values: npt.NDArray[np.float64]
    dtype: str
    row_gap: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.values.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours in each dimension."""
        shape = self.values.shape
        if not shape:
            return ()
        steps = [1]
        for size in shape[:0:-1]:
            steps.append(steps[-1] * max(size, 1) + (self.row_gap if len(steps) == 1 else 0))
        return tuple(reversed(steps))


Held = Ints | Rows | Floats | int | float | str | bool | None
TENSORS = (Ints, Rows, Floats)
MOST_SHOWN = 16
"""A report shows tensors of at most so many values."""


def shown(held: Held) -> str:
    """Return an argument as text: of a tensor its values if they are few, else its dtype and shape.

    >>> shown(Ints(np.array([[3, 7]]), "int32", (4, 1), num_bare_columns=2))
    '[[3, 7, …]]'
    >>> shown(Ints(np.arange(20), "int64", (1,))), shown(Floats(np.array([[1 / 3, -1e-9]]), "fp32"))
    ('int64[20]', '[[0.333333, -1e-09]]')
    """
    if not isinstance(held, TENSORS):
        return repr(held)
    if isinstance(held, Rows) or held.values.size > MOST_SHOWN:
        return f"{held.dtype}[{', '.join(str(size) for size in held.shape)}]"
    values = held.values.astype(bool) if held.dtype == "bool" else held.values
    text = str(values.tolist())
    if isinstance(held, Floats):
        text = re.sub(r"-?\d[\d.e+-]*", lambda number: f"{float(number[0]):g}", text)
    if isinstance(held, Ints) and held.num_bare_columns:
        text = re.sub(r"(?<!])]", ", …]", text).replace("[, ", "[")
    return text


@dataclass(frozen=True, slots=True)
class Numbers:
    """Integers int64 [n] or [n, width], 0 for garbage; ``garbage``: these places, None for none."""

    known: IntArray
    garbage: npt.NDArray[np.bool_] | None


def numbers(values: Sequence[Any], width: int | None = None) -> Numbers:
    """Return the integers of a list, or of a list of rows of ``width``.

    >>> numbers([[3, GARBAGE]], 2)
    Numbers(known=array([[3, 0]]), garbage=array([[False,  True]]))
    """
    if width is not None:
        return _table(values, width)
    if GARBAGE not in values:
        return Numbers(np.array(values, dtype=np.int64), None)
    known = np.array([0 if entry is GARBAGE else entry for entry in values], dtype=np.int64)
    return Numbers(known, np.array([entry is GARBAGE for entry in values]))


def _table(rows: Sequence[Any], width: int) -> Numbers:
    """Return the integers of rows of ``width``, most of which end in garbage if they have any.

    Raises ``ValueError`` for a row of another width.
    """
    known = np.zeros((len(rows), width), dtype=np.int64)
    garbage = np.zeros((len(rows), width), dtype=bool)
    for b, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"entries of row {b} = {len(row)}, must be {width}")
        stop = row.index(GARBAGE) if GARBAGE in row else width
        if row[stop:] == [GARBAGE] * (width - stop):
            known[b, :stop] = row[:stop]
            garbage[b, stop:] = True
        else:
            known[b] = [0 if entry is GARBAGE else entry for entry in row]
            garbage[b] = [entry is GARBAGE for entry in row]
    return Numbers(known, garbage if garbage.any() else None)


def ints(
    values: Sequence[Any] | Numbers, dtype: str, garbage: GarbageKind, *, width: int | None = None
) -> Ints:
    """Return a contiguous tensor from a list, or from a list of rows of ``width``, with garbage filled in."""
    given = values if isinstance(values, Numbers) else numbers(values, width)
    filled = given.known if given.garbage is None else _filled(given.known, given.garbage, garbage, dtype)
    return Ints(filled, dtype, (max(filled.shape[-1], 1), 1) if filled.ndim > 1 else (1,))


def ints_of(inputs: Inputs, name: str, dtype: str, *, width: int | None = None) -> Ints:
    """Return an input as ``ints`` does; its numbers are made once for all layouts of a case."""
    known: Numbers = inputs.once(f"numbers of {name}", lambda: numbers(inputs[name], width))
    return ints(known, dtype, inputs.case.layout.garbage)


def in_table(held: Ints, layout: Layout, *, is_free: bool = False) -> Ints:
    """Return a table with at least a layout's ``min_table_columns`` and its distance between rows.

    ``is_free``: whether the layout also chooses the column step and the order; else columns are adjacent.
    """
    count, width = held.values.shape
    bare = max(layout.min_table_columns - width, 0)
    step = layout.table_column_step if is_free else 1
    if is_free and layout.table_order == "column":
        strides = (step, _rounded_up(max(count, 1) * step + layout.table_row_gap, layout))
    else:
        strides = (_rounded_up(max(width + bare, 1) * step + layout.table_row_gap, layout), step)
    return replace(held, strides=strides, num_bare_columns=bare)


def _rounded_up(distance: int, layout: Layout) -> int:
    return -(-distance // layout.table_row_multiple) * layout.table_row_multiple


def floats(values: Sequence[Any], dtype: str, garbage: GarbageKind, *, width: int | None = None) -> Floats:
    """Return a tensor from a list, or a list of rows of ``width``; garbage has the bytes of garbage rows."""
    flat = values if width is None else [entry for row in values for entry in row]
    byte = np.full(4, _GARBAGE_BYTES[garbage], dtype=np.uint8)
    if dtype == "bf16":
        byte[:2] = 0
    fill = float(byte.view(np.float32)[0])
    array = np.array([fill if entry is GARBAGE else entry for entry in flat], dtype=np.float64)
    return Floats(array if width is None else array.reshape(len(values), width), dtype)


def _filled(known: IntArray, places: npt.NDArray[np.bool_], kind: GarbageKind, dtype: str) -> IntArray:
    """Return the numbers with these places filled with -1, 0, valid-looking or huge numbers."""
    huge = 1 if dtype == "bool" else 2**31 - 1
    fixed = {"minus_one": 1 if dtype == "bool" else -1, "zero": 0, "huge": huge}
    filled: IntArray = known.copy()
    if kind in fixed:
        filled[places] = fixed[kind]
    else:
        bound = min(max(int(known.max(initial=0)), 0), huge) + 1
        filled[places] = (7 * np.flatnonzero(places) + 1) % bound
    return filled


def rows(
    shape: tuple[int, ...],
    dtype: str,
    strides: tuple[int, ...],
    live: IntArray,
    garbage: GarbageKind,
    seed: int,
) -> Rows:
    """Return a tensor of rows: bytes that depend only on the place if ``live``, ``garbage`` elsewhere.

    A place is the first and the last index of a row: block and offset, or the row alone. A wide row of
    numbers holds -0.0 at one column, which random bytes hardly ever are. No live number is NaN, whose bits
    arithmetic does not keep: rows of NaN are odd ones, which a function may promise not to get.
    """
    width, item_bytes = shape[-1], ITEM_BYTES[dtype]
    places = live[:, -1] + (live[:, 0] << 24 if live.shape[1] > 1 else 0)
    content = _content(places, width * item_bytes, seed)
    if dtype in FLOATS:
        words = content.view(f"<u{item_bytes}")
        infinity = _INFINITY[dtype]
        is_nan = words & ((1 << (8 * item_bytes - 1)) - 1) > infinity
        words[is_nan] ^= infinity & -infinity
        if width >= WIDE:
            words[np.arange(len(places)), (7 * places + seed) % width] = 1 << (8 * item_bytes - 1)
    return Rows(shape, dtype, strides, live, content, _GARBAGE_BYTES[garbage])


def seed_in_step(inputs: Inputs, seed: int) -> int:
    """Return the seed of a cache's or of new rows' content: in a trace, other bytes than in the step before.

    Its tokens may be those of another request or layer, and a function cannot tell.
    """
    if inputs.previous is None:
        return seed
    return seed + SEEDS * (1 + sum(request.seq_len for request in inputs.previous.batch.requests))


def _content(places: IntArray, row_bytes: int, seed: int) -> ByteArray:
    """Return random-looking bytes for each place (splitmix64 of seed, place and column)."""
    columns = np.arange(-(-row_bytes // 8), dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = places.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + columns
        mixed *= np.uint64(0xD1342543DE82EF95)
        mixed += np.uint64(seed)
        shifted = mixed >> np.uint64(30)
        for factor, shift in ((0xBF58476D1CE4E5B9, 27), (0x94D049BB133111EB, 31)):
            mixed ^= shifted
            mixed *= np.uint64(factor)
            np.right_shift(mixed, np.uint64(shift), out=shifted)
        mixed ^= shifted
    whole: ByteArray = mixed.view(np.uint8).reshape(len(places), 8 * len(columns))
    return whole if whole.shape[1] == row_bytes else whole[:, :row_bytes].copy()
