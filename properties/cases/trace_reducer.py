"""Reduce a failing trace: fewer steps, equal steps, smaller steps."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import TypeVar

from cumae.oracle import Case, Trace, leveled
from cumae.properties.cases.draw import NEUTRAL
from cumae.properties.cases.edits import all_capped, edits, keep, shorten, with_block_size, with_fields
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.reducer import MOST_TRIES, boldest_cases, size_of, valid

T = TypeVar("T")
MOST_STEPS = 40_000
"""Steps of all traces that a reduction tries: 300 traces of 130 steps."""
LONG = 32
"""A trace of more steps is long: not each of its steps is made smaller."""


def boldest(tried: Case | Trace) -> Iterator[Case | Trace]:
    """Yield smaller cases or traces, the boldest first, and each only once.

    Used if a failure crashes the process: each failing candidate costs a process, the others cost little.
    """
    if isinstance(tried, Trace):
        yield from _smaller_traces(tried)
    else:
        yield from boldest_cases(tried)


def size_of_trace(trace: Trace) -> tuple[int, ...]:
    """Return the size of a trace: its steps, then their sizes."""
    sizes = _each(size_of, trace.steps)
    return (len(trace.steps), *(sum(column) for column in zip(*sizes, strict=True)))


def _each(of: Callable[[Case], T], steps: Sequence[Case]) -> list[T]:
    """Return a value of each step; it is computed once for a step that stands in several places."""
    known = {id(step): step for step in steps}
    values = {key: of(step) for key, step in known.items()}
    return [values[id(step)] for step in steps]


def is_smaller(tried: Case | Trace, known: Case | Trace) -> bool:
    """Whether a case is smaller than another case or any trace, or a trace than another trace."""
    if isinstance(known, Trace):
        if isinstance(tried, Case):
            return True
        if len(tried.steps) != len(known.steps):
            return len(tried.steps) < len(known.steps)
        return size_of_trace(tried) < size_of_trace(known)
    return isinstance(tried, Case) and size_of(tried) < size_of(known)


def reduce_trace(trace: Trace, still_fails: Callable[[Trace], bool]) -> Trace:
    """Return a smaller trace for which ``still_fails``; ``trace`` itself must fail.

    Drops steps, halves first, and makes the steps before the last ones alike. Then makes all steps smaller in
    the same way, then single steps, of a long trace the last ones. Runs no trace twice, and ends after
    ``MOST_TRIES`` traces or ``MOST_STEPS`` steps.
    """
    tried: set[Hashable] = set()
    left = MOST_STEPS
    improved = True
    while improved:
        improved = False
        for edits_of in _TRACE_EDITS:
            builds, next_one = list(edits_of(trace)), 0
            while next_one < len(builds):
                candidate = _smaller(trace, builds[next_one])
                next_one += 1
                if candidate is None or (key := _runs(candidate)) in tried:
                    continue
                left -= len(candidate.steps)
                if left < 0 or len(tried) >= MOST_TRIES:
                    return trace
                tried.add(key)
                if still_fails(candidate):
                    # The next round retries the edits that failed before this one.
                    trace, improved = candidate, True
                    builds, next_one = list(edits_of(trace)), next_one - 1
    return trace


def _runs(trace: Trace) -> Hashable:
    """Return the steps as runs of one step, which is quick to compare."""
    return tuple((next(run), 1 + sum(1 for _ in run)) for _, run in groupby(trace.steps, key=id))


def _smaller_traces(trace: Trace) -> Iterator[Trace]:
    """Yield the smaller traces that are one edit away."""
    for build in chain(*(edits_of(trace) for edits_of in _TRACE_EDITS)):
        candidate = _smaller(trace, build)
        if candidate is not None:
            yield candidate


def _smaller(trace: Trace, build: Callable[[], Trace]) -> Trace | None:
    """Return an edited trace if it is valid and smaller."""
    candidate = valid(build)
    return candidate if candidate is not None and is_smaller(candidate, trace) else None


def _fewer_spare_rows(trace: Trace) -> Iterator[Callable[[], Trace]]:
    for rows in (0, 1):
        yield lambda rows=rows: leveled(trace.steps, rows)  # type: ignore[misc]


def _fewer_steps(trace: Trace, least: int = 1) -> Iterator[Callable[[], Trace]]:
    """Yield edits that drop consecutive steps, halves first, ``least`` steps last."""
    steps = list(trace.steps)
    width = len(steps) // 2
    while width >= least:
        for start in range(0, len(steps), width):
            yield _leveled(trace, lambda start=start, width=width: steps[:start] + steps[start + width :])
        width //= 2


def _alike_steps(trace: Trace) -> Iterator[Callable[[], Trace]]:
    """Yield edits that replace all steps but the last ones by the smallest steps of the trace."""
    steps = list(trace.steps)
    small = list(dict.fromkeys(sorted(steps, key=size_of)))[:3]
    for last in (1, 2, 3) if len(steps) > LONG else ():
        for step in small:
            yield _leveled(trace, lambda last=last, step=step: [step] * (len(steps) - last) + steps[-last:])


def _in_all_steps(trace: Trace) -> Iterator[Callable[[], Trace]]:
    """Yield the same edit in all steps, then in one row of all steps."""
    steps = list(trace.steps)
    for edit in chain((_halved,), _edits_of_all(), _paddings()):
        yield _leveled(trace, partial(_each, edit, steps))
    # Some edits keep the longest query and the size equal in steps that a function may treat as equal.
    for most in (1, 2):
        yield _leveled(trace, partial(_capped_alike, steps, None, most))
    for row in range(max(len(step.batch.requests) for step in steps)):
        yield _leveled(trace, partial(_each, partial(_without, row=row), steps))
        for most in (1, 2):
            yield _leveled(trace, partial(_capped_alike, steps, row, most))
        for name in ("query_len", "context_len"):
            for most in (0, 1, 2):
                capped = partial(_capped, row=row, name=name, most=most)
                yield _leveled(trace, partial(_each, capped, steps))


def _in_single_steps(trace: Trace) -> Iterator[Callable[[], Trace]]:
    """Yield edits of one step; equal steps of a long trace are edited together, and only the last ones."""
    steps = list(trace.steps)
    places = [[k] for k in range(len(steps))]
    if len(steps) > LONG:
        last = list(dict.fromkeys(reversed(steps)))[:4]
        places = [[k for k, other in enumerate(steps) if other == step] for step in last]
    for place in places:
        step = steps[place[0]]
        padded = (step.num_tokens_padded, step.num_requests_padded)
        for build in edits(step):
            yield _leveled(trace, lambda place=place, build=build: _with(steps, place, build()))
            yield _leveled(
                trace,
                lambda place=place, build=build, padded=padded: _with(
                    steps, place, _as_padded(build(), *padded)
                ),
            )


_TRACE_EDITS = (
    _fewer_spare_rows,
    lambda trace: _fewer_steps(trace, max(len(trace.steps) // 8, 1)),
    _alike_steps,
    _fewer_steps,
    _in_all_steps,
    _in_single_steps,
)


def _leveled(trace: Trace, build: Callable[..., list[Case]]) -> Callable[[], Trace]:
    """Return a build of the edited steps, with as many spare rows in the buffers as the trace has."""
    spare = trace.steps[0].max_num_tokens - max(step.num_tokens_padded for step in trace.steps)
    return lambda: leveled(build(), spare)


def _with(steps: list[Case], place: list[int], step: Case) -> list[Case]:
    """Return the steps with another one in some places."""
    return [step if k in place else known for k, known in enumerate(steps)]


def _edits_of_all() -> Iterator[Callable[[Case], Case]]:
    """Yield edits that apply to every step of a trace: one field neutral, smaller blocks, fresh ids."""
    for row in FEATURES:
        for number in (None, 1, 2) if row.record == "options" else (None,):
            values = [NEUTRAL[name] if number is None else number for name in row.fields]
            yield lambda case, row=row, values=values: with_fields(case, row, values)  # type: ignore[misc]
    for size in (1, 2, 3, 4):
        yield lambda case, size=size: with_block_size(case, size)  # type: ignore[misc]
    yield lambda case: with_block_size(case, case.batch.block_size)


def _halved(case: Case) -> Case:
    """Return the case with half of every length and half of a selection, rounded up."""
    for row, request in enumerate(case.batch.requests):
        case = shorten(case, row, "context_len", -(-request.context_len // 2))
        case = shorten(case, row, "query_len", -(-request.query_len // 2))
    have = {"topk": case.options.selection.topk, "split_size": case.options.schedule.split_size}
    # A function without a selection has the neutral one.
    half = {name: -(-value // 2) for name, value in have.items() if value != NEUTRAL[name]}
    return replace(case, options=case.options.having(**half)) if half else case


def _paddings() -> Iterator[Callable[[Case], Case]]:
    """Yield edits that pad every step to the same number of tokens, of requests, or of both."""
    for size in (0, 1, 2, 4):
        yield partial(_as_padded, num_tokens=size, num_requests=size)
        yield lambda case, size=size: _as_padded(case, size, case.num_requests_padded)  # type: ignore[misc]
        yield lambda case, size=size: _as_padded(case, case.num_tokens_padded, size)  # type: ignore[misc]


def _capped_alike(steps: list[Case], row: int | None, most: int) -> list[Case]:
    """Return the steps without a row, with capped queries, and all of one size."""

    def capped(case: Case) -> Case:
        return all_capped(case if row is None else _without(case, row), "query_len", most)

    return _of_one_size(_each(capped, steps))


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
    return case.laid_out(num_padding_tokens=tokens, num_padding_requests=requests)


def _of_one_size(steps: list[Case]) -> list[Case]:
    """Return the steps padded to the largest counts of tokens and requests."""
    tokens = max(step.batch.num_tokens for step in steps)
    requests = max(len(step.batch.requests) for step in steps)
    return _each(lambda step: _as_padded(step, tokens, requests), steps)
