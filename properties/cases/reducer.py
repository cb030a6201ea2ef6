"""Reduce a failing case until it could be drawn on paper."""

from collections.abc import Callable, Iterator
from itertools import chain
from operator import ne
from typing import TypeVar

from cumae.oracle import DENSE, Batch, Case
from cumae.properties.cases.draw import NEUTRAL
from cumae.properties.cases.edits import (
    fewer_requests,
    keep,
    merged_requests,
    neutral_fields,
    plain_layout,
    shorter_lengths,
    shorter_padding,
    shorter_throughout,
    single_requests,
    smaller_blocks,
)
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.fields import fields_of, reader_of

T = TypeVar("T")
MOST_TRIES = 2000
OPTIONS = tuple(name for row in FEATURES if row.record == "options" for name in row.fields)
_numbers_of = reader_of((*OPTIONS, "num_spare_tokens", *DENSE))
_USUAL = [NEUTRAL[name] for name in fields_of(Case(Batch((), 1)))]
MOST_SORTED = 64
"""Up to this many requests, all edits of a case are built before any is tried."""
_EDITS = (
    plain_layout,
    fewer_requests,
    shorter_throughout,
    neutral_fields,
    smaller_blocks,
    single_requests,
    merged_requests,
    shorter_lengths,
    shorter_padding,
)


def size_of(case: Case) -> tuple[int, ...]:
    """Return the size of a case: requests, then tokens, then the number of non-neutral values."""
    requests = case.batch.requests
    odd = sum(map(ne, fields_of(case).values(), _USUAL)) + bool(case.layout.min_table_columns)
    ids = list(chain.from_iterable([r.block_ids for r in requests]))
    tokens = case.batch.num_tokens + sum([r.context_len for r in requests])
    padding = case.layout.num_padding_tokens + case.layout.num_padding_requests
    selected = sum([n for n in _numbers_of(case) if type(n) is int])
    return (
        len(requests),
        tokens + padding,
        odd,
        len(ids),
        case.batch.block_size,
        case.batch.num_tokens,
        sum(ids),
        selected,
    )


def boldest_cases(tried: Case) -> Iterator[Case]:
    """Yield the subsets of one or two requests, and the results of single edits, smallest first.

    Those of cases with many requests come in the reducer's order.
    """
    builds = chain(_of_few_requests(tried), *(edits_of(tried) for edits_of in _EDITS))
    candidates = (case for case in map(valid, builds) if case is not None and size_of(case) < size_of(tried))
    if len(tried.batch.requests) > MOST_SORTED:
        yield from candidates
    else:
        yield from sorted(dict.fromkeys(candidates), key=size_of)


def _of_few_requests(case: Case) -> Iterator[Callable[[], Case]]:
    for width in (1, 2):
        for start in range(min(MOST_SORTED, len(case.batch.requests) - width)):
            yield lambda start=start, width=width: keep(case, [*range(start, start + width)])  # type: ignore[misc]


def reduce_case(case: Case, still_fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case for which ``still_fails``; ``case`` itself must fail.

    Makes the layout neutral, drops requests (halves first) or merges two, cuts lengths to 0, 1 and block
    edges, for many requests at once and then for each, makes options and padding neutral, renumbers blocks.
    Every candidate is a valid case. If it returns before ``MOST_TRIES``, no smaller case of these kinds
    fails.
    """
    tries = 0
    improved = True
    while improved:
        improved = False
        for edits_of in _EDITS:
            builds, next_one = list(edits_of(case)), 0
            while next_one < len(builds):
                candidate = valid(builds[next_one])
                if candidate is None or size_of(candidate) >= size_of(case):
                    next_one += 1
                    continue
                tries += 1
                if tries > MOST_TRIES:
                    return case
                if still_fails(candidate):
                    # The next round retries the edits that failed before this one.
                    case, improved = candidate, True
                    builds = list(edits_of(case))
                else:
                    next_one += 1
    return case


def valid(build: Callable[[], T]) -> T | None:
    """Return what is built, None if it is not valid."""
    try:
        return build()
    except ValueError:
        return None
