"""Keys in parts, and attention over them."""

from collections.abc import Iterator, Sequence
from math import exp, log, nan, sqrt
from operator import mul
from typing import NamedTuple

from cumae.oracle.attention import LATENT_DIM, Vector
from cumae.properties.attention.answers import ROW_DIM


class Key(NamedTuple):
    """A latent row with its token and position, -1 for none."""

    values: Vector
    token: int = -1
    position: int = -1


class OutOfReach(Exception):
    """The metadata point outside the data."""


class Part(NamedTuple):
    """Keys that a query attends to separately; ``query_row``: the row of the query, if it is another."""

    keys: Sequence[Key]
    query_row: int | None = None


Rows = Iterator[tuple[int, Sequence[Part]]]
"""Each row with its keys, in parts."""
NOBODY = Key((nan,) * ROW_DIM)
Memory = dict[int, Key]
"""The filled slots of a rank's cache; all others hold garbage."""


def attended(parts: Sequence[tuple[Vector, Sequence[Key]]]) -> Vector:
    """Return attention over parts, each a query and its keys, merged by log-sum-exp.

    A part without keys has log-sum-exp -inf and is left out.
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
    """Return the output of attention over the keys of one part, and the log-sum-exp of their scores."""
    scale = 1.0 / sqrt(len(query))
    scores = [sum(map(mul, query, key.values)) * scale for key in keys]
    highest = max(scores)
    weights = [exp(score - highest) for score in scores]
    total = sum(weights)
    columns = list(zip(*(key.values for key in keys), strict=True))[:LATENT_DIM]
    output = tuple(sum(map(mul, weights, column)) / total for column in columns)
    return output, highest + log(total)
