"""Keys in the parts that attention takes them in, and what it puts out over them."""

from collections.abc import Sequence
from math import exp, log, nan, sqrt
from operator import mul
from typing import NamedTuple

from cumae.oracle.attention import LATENT_DIM, Vector
from cumae.properties.attention.answers import ROW_DIM


class Key(NamedTuple):
    """A latent row, and whose it is: a token at a position, or nobody's."""

    values: Vector
    token: int = -1
    position: int = -1


class OutOfReach(Exception):
    """The metadata point where nothing is."""


class Part(NamedTuple):
    """Keys that a query attends to by themselves; ``query_row``: whose query, if it is another row's."""

    keys: Sequence[Key]
    query_row: int | None = None


NOBODY = Key((nan,) * ROW_DIM)
Memory = dict[int, Key]
"""Slots of a rank's cache that hold a row; every other one holds garbage."""


def attended(parts: Sequence[tuple[Vector, Sequence[Key]]]) -> Vector:
    """Return attention over parts, each a query and its keys: each by itself, then merged by log-sum-exp.

    A part without keys has log-sum-exp -inf: it is left out.
    """
    partials = [_partial(query, keys) for query, keys in parts if keys]
    if not partials:
        return (0.0,) * LATENT_DIM
    highest = max(lse for _, lse in partials)
    weights = [exp(lse - highest) for _, lse in partials]
    total = sum(weights)
    columns = zip(*(output for output, _ in partials), strict=True)
    return tuple(sum(map(mul, weights, column)) / total for column in columns)


def _partial(query: Vector, keys: Sequence[Key]) -> tuple[Vector, float]:
    """Return the output of attention over some keys, and the log-sum-exp of their scores."""
    scale = 1.0 / sqrt(len(query))
    scores = [sum(map(mul, query, key.values)) * scale for key in keys]
    highest = max(scores)
    weights = [exp(score - highest) for score in scores]
    total = sum(weights)
    columns = list(zip(*(key.values for key in keys), strict=True))[:LATENT_DIM]
    output = tuple(sum(map(mul, weights, column)) / total for column in columns)
    return output, highest + log(total)
