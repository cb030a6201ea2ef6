"""Read and check the values of an engine's tensors, for functions that build a case from them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from cumae.oracle.model.rules import INT32_MAX, require, require_choice, require_int


class Unreadable(ValueError):
    """Tensors that are missing or of another form than the engine's: the dump is at fault."""


@contextmanager
def reading() -> Iterator[None]:
    """Turn a ``ValueError`` raised within into ``Unreadable``."""
    try:
        yield
    except ValueError as error:
        raise Unreadable(str(error)) from error


def require_given(what: str, values: Mapping[str, Any]) -> None:
    """Raise ``Unreadable`` that names every missing value. ``what``: the thing that needs them."""
    missing = [name for name, value in values.items() if value is None]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise Unreadable(f"{'; '.join(missing)} = None, must be given: {what} needs {them}")


def first_given(*values: Any) -> Any:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


@reading()
def read_choice(name: str, value: Any, choices: Sequence[str], numbers: Sequence[str] = ()) -> str:
    """Return the choice that an engine's enum, its name in any case, or its number means.

    ``numbers``: the names that the engine counts from 1. Raises ``Unreadable`` for any other value.
    """
    given = _plain(value)
    if isinstance(given, Enum):
        given = given.name
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, str):
        given = given.rpartition(".")[2].lower()
    if type(given) is int and 1 <= given <= len(numbers):
        given = numbers[given - 1]
    require_choice(name, given, choices)
    return str(given)


@reading()
def read_ints(name: str, tensor: Any, length: int | None = None) -> list[int]:
    """Return the integers of a tensor of shape [n] or [n, 1].

    Raises ``Unreadable`` for other shapes, for numbers that are not integers, and for another length than the
    given one.
    """
    values = _plain(tensor)
    require(isinstance(values, list), name, values, "be a list of integers")
    if values and all(isinstance(value, list) and len(value) == 1 for value in values):
        values = [value[0] for value in values]
    for i, value in enumerate(values):
        require(type(value) in (int, bool), f"{name}[{i}]", value, "be an integer")
    if length is not None:
        require(len(values) == length, f"{name}: number", len(values), f"be {length}")
    return [int(value) for value in values]


@reading()
def read_flags(name: str, tensor: Any, count: int) -> list[int]:
    """Return the flags of a tensor, at least ``count``. Raises ``Unreadable`` for fewer."""
    flags = read_ints(name, tensor)
    require(len(flags) >= count, f"{name}: number", len(flags), f"be >= {count}")
    return flags


def require_equal_copy(name: str, tensor: Any, copy: Any) -> None:
    """Raise ``ValueError`` unless a copy on the host has the tensor's values; either may be None."""
    if tensor is None or copy is None:
        return
    values = read_ints(name, tensor)
    for i, value in enumerate(read_ints(f"{name}_cpu", copy, len(values))):
        require(value == values[i], f"{name}_cpu[{i}]", value, f"be {values[i]}, as {name}[{i}]")


def read_lens(name: str, tensor: Any, length: int | None = None) -> list[int]:
    """Return the integers of a tensor of counts. Raises ``ValueError`` for negative ones."""
    values = read_ints(name, tensor, length)
    for i, value in enumerate(values):
        require_int(f"{name}[{i}]", value, 0)
    return values


def read_starts(name: str, tensor: Any) -> list[int]:
    """Return the integers of a cumulative sum.

    Raises ``ValueError`` unless it starts at 0 and never falls.
    """
    values = read_ints(name, tensor)
    with reading():
        require(bool(values), f"{name}: number", 0, "be >= 1: one more than requests")
    require(values[0] == 0, f"{name}[0]", values[0], "be 0")
    for i in range(1, len(values)):
        require(values[i] >= values[i - 1], f"{name}[{i}]", values[i], f"be >= {values[i - 1]}, never fall")
    return values


@reading()
def read_table(name: str, tensor: Any, num_rows: int) -> list[list[int]]:
    """Return the rows of a table, at least ``num_rows`` of one width. Raises ``Unreadable`` otherwise."""
    rows = _plain(tensor)
    require(isinstance(rows, list), name, rows, "be a list of rows")
    require(len(rows) >= num_rows, f"{name}: number of rows", len(rows), f"be >= {num_rows}")
    rows = [_plain(row) for row in rows]
    for i, row in enumerate(rows):
        require(
            isinstance(row, list), f"{name}[{i}]", row, "be a list of integers: a table has two dimensions"
        )
    return [read_ints(f"{name}[{i}]", row, len(rows[0])) for i, row in enumerate(rows)]


@reading()
def read_count(name: str, value: Any, low: int = 0, high: int = INT32_MAX) -> int:
    """Return a host number, or the only element of a tensor. Raises ``Unreadable`` out of range."""
    plain = _plain(value)
    while isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    require_int(name, plain, low, high)
    return int(plain)


def live_blocks(name: str, row: Sequence[int], count: int, null: int | None = None) -> tuple[int, ...]:
    """Return the first ``count`` entries of a table's row, with ``null`` entries as -1 (no block).

    Raises ``ValueError`` if the row is too narrow for them.
    """
    require(len(row) >= count, f"{name}: number of columns", len(row), f"be >= {count}, the blocks in use")
    return tuple(-1 if entry == null else entry for entry in row[:count])


def _plain(value: Any) -> Any:
    """Return a tensor of any library as lists, and any other value unchanged."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, (tuple, range)) else value
