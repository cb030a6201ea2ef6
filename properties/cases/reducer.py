"""Reduce a failing case until it could be drawn on paper."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from cumae.oracle import Case, Trace, leveled
from cumae.properties.cases.edits import (
    all_capped,
    edits,
    fewer_requests,
    keep,
    merged_requests,
    neutral_fields,
    shorten,
    shorter_lengths,
    shorter_throughout,
    single_requests,
    smaller_blocks,
    with_block_size,
    with_fields,
)
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.fields import fields_of
from cumae.properties.cases.values import NEUTRAL

MOST_TRIES = 2000
OPTIONS = tuple(name for row in FEATURES if row.record == "options" for name in row.fields)
MOST_SORTED = 64
"""Up to this many requests, all edits of a case are built before any is tried."""
_EDITS = (
    fewer_requests,
    shorter_throughout,
    neutral_fields,
    smaller_blocks,
    single_requests,
    merged_requests,
    shorter_lengths,
)


def size_of(case: Case) -> tuple[int, ...]:
    """Return the size of a case: requests, then tokens, then the number of non-neutral values."""
    requests, have = case.batch.requests, fields_of(case)
    odd = sum(value != NEUTRAL[name] for name, value in have.items()) + bool(case.layout.min_table_columns)
    ids = [i for r in requests for i in r.block_ids]
    tokens = sum(r.seq_len for r in requests)
    padding = case.layout.num_padding_tokens + case.layout.num_padding_requests
    numbers = [case.options.value(name) for name in OPTIONS]
    numbers += [case.layout.num_spare_tokens, *case.layout.strides.values()]
    selected = sum(n for n in numbers if type(n) is int)
    return (
        len(requests),
        tokens + padding,
        odd,
        len(ids),
        case.batch.block_size,
        sum(r.query_len for r in requests),
        sum(ids),
        selected,
    )


def boldest(tried: Case | Trace) -> Iterator[Case | Trace]:
    """Yield the subsets of one or two requests, and the results of single edits, smallest first.

    Used if a failure crashes the process: each failing candidate costs a process, the others cost little.
    Edits of traces, and of cases with many requests, come in the reducer's order.
    """
    if isinstance(tried, Trace):
        yield from _smaller_traces(tried)
        return
    builds = chain(_of_few_requests(tried), *(edits_of(tried) for edits_of in _EDITS))
    candidates = (case for case in map(_valid, builds) if case is not None and size_of(case) < size_of(tried))
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

    Drops requests (halves first) or merges two, cuts lengths to 0, 1 and block edges, for many requests at
    once and then for each, makes layout and options neutral, renumbers blocks. Every candidate is a valid
    case. If it returns before ``MOST_TRIES``, no smaller case of these kinds fails.
    """
    tries = 0
    improved = True
    while improved:
        improved = False
        for edits_of in _EDITS:
            builds, next_one = list(edits_of(case)), 0
            while next_one < len(builds):
                candidate = _valid(builds[next_one])
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


def size_of_trace(trace: Trace) -> tuple[int, ...]:
    """Return the size of a trace: its steps, then their sizes."""
    sizes = [size_of(step) for step in trace.steps]
    return (len(trace.steps), *(sum(column) for column in zip(*sizes, strict=True)))


def is_smaller(tried: Case | Trace, known: Case | Trace) -> bool:
    """Whether a case is smaller than another case, or a trace than another trace."""
    if isinstance(tried, Trace) and isinstance(known, Trace):
        return size_of_trace(tried) < size_of_trace(known)
    return isinstance(tried, Case) and isinstance(known, Case) and size_of(tried) < size_of(known)


def reduce_trace(trace: Trace, still_fails: Callable[[Trace], bool]) -> Trace:
    """Return a smaller trace for which ``still_fails``; ``trace`` itself must fail.

    Drops steps, halves first, then makes all steps smaller in the same way, then single steps.
    """
    tries = 0
    improved = True
    while improved:
        improved = False
        for candidate in _smaller_traces(trace):
            tries += 1
            if tries > MOST_TRIES:
                return trace
            if still_fails(candidate):
                trace, improved = candidate, True
                break
    return trace


def _smaller_traces(trace: Trace) -> Iterator[Trace]:
    """Yield valid smaller traces, which keep the spare rows of the buffers or only a few."""
    steps = trace.steps
    spare = steps[0].max_num_tokens - max(step.num_tokens_padded for step in steps)
    fewer: list[tuple[Callable[[], list[Case]], int]]
    fewer = [(lambda: list(steps), rows) for rows in (0, 1) if rows < spare]
    for build, rows in (*fewer, *((edit, spare) for edit in _trace_edits(trace))):
        try:
            candidate = leveled(build(), rows)
        except ValueError:
            continue
        if size_of_trace(candidate) < size_of_trace(trace):
            yield candidate


def _trace_edits(trace: Trace) -> Iterator[Callable[[], list[Case]]]:
    """Yield edits of a trace: fewer steps, then the same edit in all steps, then one step at a time."""
    steps = list(trace.steps)
    width = len(steps)
    while width >= 1:
        for start in range(0, len(steps), width):
            yield lambda start=start, width=width: steps[:start] + steps[start + width :]  # type: ignore[misc]
        width //= 2
    for edit in _edits_of_all():
        yield lambda edit=edit: [edit(step) for step in steps]  # type: ignore[misc]
    for size in (0, 1, 2, 4):
        yield lambda size=size: [_as_padded(step, size, step.num_requests_padded) for step in steps]  # type: ignore[misc]
        yield lambda size=size: [_as_padded(step, step.num_tokens_padded, size) for step in steps]  # type: ignore[misc]
    # These keep the longest query and the size equal in steps that a function may treat as equal.
    for most in (1, 2):
        yield lambda most=most: _of_one_size([all_capped(step, "query_len", most) for step in steps])  # type: ignore[misc]
    for row in range(max(len(step.batch.requests) for step in steps)):
        yield lambda row=row: [_without(step, row) for step in steps]  # type: ignore[misc]
        for most in (1, 2):
            yield lambda row=row, most=most: _of_one_size(  # type: ignore[misc]
                [all_capped(_without(step, row), "query_len", most) for step in steps]
            )
        for name in ("query_len", "context_len"):
            for most in (0, 1, 2):
                yield lambda row=row, name=name, most=most: [  # type: ignore[misc]
                    _capped(step, row, name, most) for step in steps
                ]
    for k, step in enumerate(steps):
        for build in edits(step):
            yield lambda k=k, build=build: [*steps[:k], build(), *steps[k + 1 :]]  # type: ignore[misc]
            padded = (step.num_tokens_padded, step.num_requests_padded)
            yield (
                lambda k=k, build=build, padded=padded: [  # type: ignore[misc]
                    *steps[:k],
                    _as_padded(build(), *padded),
                    *steps[k + 1 :],
                ]
            )


def _edits_of_all() -> Iterator[Callable[[Case], Case]]:
    """Yield edits that apply to every step of a trace: one field neutral, smaller blocks, fresh ids."""
    for row in FEATURES:
        for number in (None, 1, 2) if row.record == "options" else (None,):
            values = [NEUTRAL[name] if number is None else number for name in row.fields]
            yield lambda case, row=row, values=values: with_fields(case, row, values)  # type: ignore[misc]
    for size in (1, 2, 3, 4):
        yield lambda case, size=size: with_block_size(case, size)  # type: ignore[misc]
    yield lambda case: with_block_size(case, case.batch.block_size)


def _without(case: Case, row: int) -> Case:
    """Return the case without the request in a row, unchanged if there is none."""
    return keep(case, [b for b in range(len(case.batch.requests)) if b != row])


def _capped(case: Case, row: int, name: str, most: int) -> Case:
    """Return the case with one length in a row capped, unchanged if there is no such row."""
    if row >= len(case.batch.requests) or getattr(case.batch.requests[row], name) <= most:
        return case
    return shorten(case, row, name, most)


def _as_padded(case: Case, num_tokens: int, num_requests: int) -> Case:
    """Return a step padded to these counts of tokens and requests, as captured graphs are."""
    tokens, requests = num_tokens - case.batch.num_tokens, num_requests - len(case.batch.requests)
    return replace(
        case, layout=replace(case.layout, num_padding_tokens=tokens, num_padding_requests=requests)
    )


def _of_one_size(steps: list[Case]) -> list[Case]:
    """Return the steps padded to the largest counts of tokens and requests."""
    tokens = max(step.batch.num_tokens for step in steps)
    requests = max(len(step.batch.requests) for step in steps)
    return [_as_padded(step, tokens, requests) for step in steps]


def _valid(build: Callable[[], Case]) -> Case | None:
    try:
        return build()
    except ValueError:
        return None
