"""The lengths of many requests at once: short ones, busy ones, drafting decodes, and runs of empty ones."""

from collections.abc import Iterator

from cumae.oracle import Phase
from cumae.properties.cases.choices import mixed

Lens = tuple[Phase, int, int]
"""The phase of a request, its cached tokens and its new ones."""


def short(count: int) -> Iterator[Lens]:
    """Yield requests of few tokens, no two parts of them alike.

    The first has a cached prefix, and the last is the longest.
    """
    for b in range(count - 1):
        bits = mixed(b)
        context, query, kind = bits >> 60, (bits >> 50) % 4, (bits >> 40) % 3
        phase: Phase = "decode" if kind == 0 else "prefill"
        yield phase, context + (b == 0), query
    if count:
        yield "prefill", 17, 9


def busy(count: int) -> Iterator[Lens]:
    """Yield requests of several small blocks each; one in 16 has more new tokens, another a long context."""
    for b in range(count):
        bits = mixed(b, 1)
        context, query = 1 + (bits >> 58), (bits >> 50) % 6
        if bits % 16 == 0:
            query += 9 + (bits >> 20) % 29
        if bits % 16 == 1:
            context += (bits >> 20) % 300
        yield "decode" if bits >> 40 & 1 else "prefill", context, query


def with_lulls(length: int) -> Iterator[Lens]:
    """Yield requests around two runs of ``length`` requests without new tokens; the second has context."""
    yield from short(9)
    for _ in range(length):
        yield "prefill", 0, 0
    yield from short(6)
    for b in range(length):
        yield "prefill", 1 + mixed(b) % 9, 0
    yield from short(7)


def uneven_decodes(count: int, least: int, *, spread: int, tokens: int = 1) -> list[Lens]:
    """Return decodes of ``tokens`` new tokens, their contexts scattered over [least, least + spread).

    >>> uneven_decodes(3, 65, spread=900)
    [('decode', 415, 1), ('decode', 944, 1), ('decode', 199, 1)]
    """
    return [("decode", least + mixed(b) % spread, tokens) for b in range(count)]


def drafting(count: int, each: int) -> Iterator[Lens]:
    """Yield decodes of ``each`` tokens, or a few less; the first of them is shorter."""
    for b in range(count):
        yield "decode", 1 + mixed(b) % 30, max(each - (mixed(b, 2) % 3 if b else 3), 1)
