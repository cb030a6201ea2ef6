"""Dense causal attention of one request, computed from its tokens without any metadata.

Tokens are numbers. The query and the latent row of a token depend on its number and its position, so
different tokens have different rows, and so has one token at different positions.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import cos, exp, fsum, sin, sqrt

from cumae.oracle.model.rules import require_int

LATENT_DIM, ROPE_DIM = 4, 4
QUERY_SCALE = 2.0
Vector = tuple[float, ...]


def dense_attention(
    tokens: Sequence[int], context_len: int, window: int = 0, compress_ratio: int = 1
) -> list[Vector]:
    """Return the attention output at the positions ``[context_len, len(tokens))`` of a request.

    ``tokens``: all tokens of the request so far, cached tokens first. A token attends to the tokens up to its
    own position, with ``window`` only to the last ``window`` of them. With ``compress_ratio`` r it attends to
    the mean latent row of each complete group of r tokens; the output is 0 if there is no such group.

    There is one head, as in MLA. A latent row has ``LATENT_DIM`` values that are key and value, and
    ``ROPE_DIM`` values that are rotated by the position and are key only.

    Raises ``ValueError`` for a context longer than the tokens and for negative numbers.

    >>> first, second = dense_attention([7, 3], context_len=0)
    >>> first == latent_row(7, 0)[:LATENT_DIM]
    True
    >>> [round(x, 3) for x in second] == [round(x, 3) for x in attention_row([7, 3], 1, seen=[1, 0])]
    True
    >>> dense_attention([7, 3, 3], context_len=1) == [second, attention_row([7, 3, 3], 2, seen=[0, 1, 2])]
    True
    >>> dense_attention([], context_len=0)
    []
    """
    require_int("context_len", context_len, 0, len(tokens))
    require_int("window", window, 0)
    require_int("compress_ratio", compress_ratio, 1)
    rows = []
    for position in range(context_len, len(tokens)):
        if compress_ratio > 1:
            query = query_of(tokens[position], position)
            rows.append(_softmax_mean(query, compressed_rows(tokens[: position + 1], compress_ratio)))
        else:
            first = max(0, position + 1 - window) if window else 0
            rows.append(attention_row(tokens, position, range(first, position + 1)))
    return rows


def attention_row(tokens: Sequence[int], position: int, seen: Iterable[int]) -> Vector:
    """Return the attention output of the token at ``position`` over the positions ``seen``.

    >>> attention_row([5, 6, 7], 2, seen=[]), attention_row([5, 6], 1, seen=[0]) == latent_row(5, 0)[:4]
    ((0.0, 0.0, 0.0, 0.0), True)
    """
    keys = [latent_row(tokens[p], p) for p in seen]
    return _softmax_mean(query_of(tokens[position], position), keys)


def _softmax_mean(query: Vector, keys: Sequence[Vector]) -> Vector:
    """Return the mean of the keys' latent values, weighted by the softmax of their scores."""
    if not keys:
        return (0.0,) * LATENT_DIM
    scores = [fsum(q * k for q, k in zip(query, key, strict=True)) / sqrt(len(query)) for key in keys]
    highest = max(scores)
    weights = [exp(score - highest) for score in scores]
    total = fsum(weights)
    return tuple(
        fsum(weight * key[d] for weight, key in zip(weights, keys, strict=True)) / total
        for d in range(LATENT_DIM)
    )


def compressed_rows(tokens: Sequence[int], compress_ratio: int) -> list[Vector]:
    """Return the mean latent row of each complete group of ``compress_ratio`` tokens.

    >>> compressed_rows([7, 3, 5], 3) == compressed_rows([7, 3, 5, 1], 3), compressed_rows([7, 3], 3)
    (True, [])
    """
    rows = [latent_row(token, position) for position, token in enumerate(tokens)]
    groups = [rows[g : g + compress_ratio] for g in range(0, len(rows), compress_ratio)]
    return [mean_row(group) for group in groups if len(group) == compress_ratio]


def mean_row(rows: Sequence[Vector]) -> Vector:
    """Return the mean of the rows.

    >>> mean_row([(1.0, 4.0), (2.0, 0.0)])
    (1.5, 2.0)
    """
    return tuple(fsum(column) / len(rows) for column in zip(*rows, strict=True))


@lru_cache(maxsize=2**16)
def query_of(token: int, position: int) -> Vector:
    """Return the query of a token: ``LATENT_DIM`` values and ``ROPE_DIM`` rotated by its position."""
    drawn = [QUERY_SCALE * value for value in _values(token, 0)]
    return (*drawn[:LATENT_DIM], *rotated(drawn[LATENT_DIM:], position))


@lru_cache(maxsize=2**16)
def latent_row(token: int, position: int) -> Vector:
    """Return the cache row of a token: ``LATENT_DIM`` values, and ``ROPE_DIM`` rotated by its position."""
    drawn = _values(token, LATENT_DIM + ROPE_DIM)
    return (*drawn[:LATENT_DIM], *rotated(drawn[LATENT_DIM:], position))


def rotated(values: Sequence[float], position: int) -> Vector:
    """Return pairs of values turned by the position: pair j of n by ``position * 10000^(-j/n)`` radians.

    >>> rotated([1.0, 0.0], 0), [round(x, 2) for x in rotated([1.0, 0.0], 1)]
    ((1.0, 0.0), [0.54, 0.84])
    """
    turned: list[float] = []
    num_pairs = len(values) // 2
    for j in range(num_pairs):
        angle = position * 10000.0 ** (-j / num_pairs)
        x, y = values[2 * j], values[2 * j + 1]
        turned += [x * cos(angle) - y * sin(angle), x * sin(angle) + y * cos(angle)]
    return tuple(turned)


def _values(token: int, first: int) -> list[float]:
    """Return pseudo-random values in [-1, 1) from column ``first`` on: splitmix64 of token and column."""
    values = []
    for column in range(first, first + LATENT_DIM + ROPE_DIM):
        mixed = (token * 0x9E3779B97F4A7C15 + column * 0xD1342543DE82EF95 + 1) % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        values.append((mixed ^ mixed >> 31) / 2.0**63 - 1.0)
    return values
