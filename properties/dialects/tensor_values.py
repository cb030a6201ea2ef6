"""Read and check the values of an engine's tensors, for functions that build a case from them."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle.model.rules import INT32_MAX, require, require_int


def read_ints(name: str, tensor: Any, length: int | None = None) -> list[int]:
    """Return the integers of a tensor of shape [n] or [n, 1].

    Raises ``ValueError`` for other shapes, for numbers that are not integers, and for another length than the
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


def read_lens(name: str, tensor: Any, length: int | None = None) -> list[int]:
    """Return the integers of a tensor of counts. Also raises ``ValueError`` for negative ones."""
    values = read_ints(name, tensor, length)
    for i, value in enumerate(values):
        require_int(f"{name}[{i}]", value, 0)
    return values


def read_starts(name: str, tensor: Any) -> list[int]:
    """Return the integers of a cumulative sum.

    Raises ``ValueError`` unless it starts at 0 and never falls.
    """
    values = read_ints(name, tensor)
    require(bool(values), f"{name}: number", 0, "be >= 1: one more than requests")
    require(values[0] == 0, f"{name}[0]", values[0], "be 0")
    for i in range(1, len(values)):
        require(values[i] >= values[i - 1], f"{name}[{i}]", values[i], f"be >= {values[i - 1]}, never fall")
    return values


def read_table(name: str, tensor: Any, num_rows: int) -> list[list[int]]:
    """Return the rows of a table, at least ``num_rows`` of one width. Raises ``ValueError`` otherwise."""
    rows = _plain(tensor)
    require(isinstance(rows, list), name, rows, "be a list of rows")
    require(len(rows) >= num_rows, f"{name}: number of rows", len(rows), f"be >= {num_rows}")
    rows = [_plain(row) for row in rows]
    for i, row in enumerate(rows):
        require(
            isinstance(row, list), f"{name}[{i}]", row, "be a list of integers: a table has two dimensions"
        )
    return [read_ints(f"{name}[{i}]", row, len(rows[0])) for i, row in enumerate(rows)]


def read_count(name: str, value: Any, low: int = 0, high: int = INT32_MAX) -> int:
    """Return a host number, or the only element of a tensor. Raises ``ValueError`` out of range."""
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
