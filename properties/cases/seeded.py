"""Thousands of cases, and large ones, from a seed."""

from collections.abc import Collection, Iterator

from cumae.oracle import Case
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case, draw_large_case
from cumae.properties.cases.features import NAMES


def seeded_case(seed: int, domain: Domain | None = None, features: Collection[str] = NAMES) -> Case:
    """Return the case of a seed, by the strategy's rules; the same seed gives the same case."""
    return draw_case(SeededChoices(seed), domain or Domain(), features)


def seeded_cases(
    seed: int, domain: Domain | None = None, features: Collection[str] = NAMES
) -> Iterator[Case]:
    """Yield cases without end, one for each seed from ``seed * 2**32`` on."""
    number = seed << 32
    while True:
        yield seeded_case(number, domain, features)
        number += 1


def large_case(
    seed: int,
    domain: Domain | None = None,
    features: Collection[str] = NAMES,
    *,
    num_requests: int | None = None,
    num_tokens: int | None = None,
) -> Case:
    """Return a case of production size or beyond, made of 64 drawn patterns and one long prefill.

    The default is 65,536 requests and a million tokens. It is a sixteenth for a router, whose rows are judged
    one by one, and for rows of a cache, which fill gigabytes.
    """
    share = 1 if {"router", "row_format", "head_format"}.isdisjoint(features) else 16
    num_requests = 65_536 // share if num_requests is None else num_requests
    num_tokens = 1_000_000 // share if num_tokens is None else num_tokens
    return draw_large_case(SeededChoices(seed), domain or Domain(), features, num_requests, num_tokens)
