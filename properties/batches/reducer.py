"""Any failing case down to one that could be drawn on paper."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Request, Trace, leveled
from cumae.properties.batches.cases import edited

MOST_TRIES = 2000


def size_of(case: Case) -> tuple[int, ...]:
    """Return what makes a case large: requests, then tokens, then everything that is not neutral."""
    requests = case.batch.requests
    odd = sum(getattr(case.layout, f.name) != f.default for f in fields(Layout))
    odd += sum(getattr(case.options, f.name) != f.default for f in fields(Options))
    ids = [i for r in requests for i in r.block_ids]
    tokens = sum(r.seq_len for r in requests)
    padding = case.layout.num_padding_tokens + case.layout.num_padding_requests
    options = case.options
    selected = options.topk + options.split_size + options.num_workers + case.layout.num_spare_tokens
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


def reduce_case(case: Case, still_fails: Callable[[Case], bool], most_tries: int = MOST_TRIES) -> Case:
    """Return a smaller case for which ``still_fails``; ``case`` itself must fail.

    Drops requests (halves of them first), pulls lengths to 0, 1 and block edges, of all requests at once
    and then of each, makes layout and options neutral, renumbers blocks. Every candidate is a valid case;
    nothing smaller of these kinds fails when it returns before ``most_tries``.
    """
    tries = 0
    improved = True
    while improved:
        improved = False
        for edits_of in (
            _fewer_requests,
            _shorter_throughout,
            _neutral_fields,
            _smaller_blocks,
            _single_requests,
            _shorter_lengths,
        ):
            edits, next_one = list(edits_of(case)), 0
            while next_one < len(edits):
                candidate = _valid(edits[next_one])
                if candidate is None or size_of(candidate) >= size_of(case):
                    next_one += 1
                    continue
                tries += 1
                if tries > most_tries:
                    return case
                if still_fails(candidate):
                    # What failed to shrink before this edit is tried again in the next round.
                    case, improved = candidate, True
                    edits = list(edits_of(case))
                else:
                    next_one += 1
    return case


def size_of_trace(trace: Trace) -> tuple[int, ...]:
    """Return what makes a trace large: its steps, then what makes these large."""
    sizes = [size_of(step) for step in trace.steps]
    return (len(trace.steps), *(sum(column) for column in zip(*sizes, strict=True)))


def is_smaller(tried: Case | Trace, known: Case | Trace) -> bool:
    """Whether a case is smaller than a case, or a trace than a trace."""
    if isinstance(tried, Trace) and isinstance(known, Trace):
        return size_of_trace(tried) < size_of_trace(known)
    return isinstance(tried, Case) and isinstance(known, Case) and size_of(tried) < size_of(known)


def reduce_trace(trace: Trace, still_fails: Callable[[Trace], bool], most_tries: int = MOST_TRIES) -> Trace:
    """Return a smaller trace for which ``still_fails``; ``trace`` itself must fail.

    Drops steps, halves of them first, then makes all steps smaller in the same way, then single ones.
    """
    tries = 0
    improved = True
    while improved:
        improved = False
        for candidate in _smaller_traces(trace):
            tries += 1
            if tries > most_tries:
                return trace
            if still_fails(candidate):
                trace, improved = candidate, True
                break
    return trace


def _smaller_traces(trace: Trace) -> Iterator[Trace]:
    """Yield valid traces, each smaller than this one; spare rows of the buffers are kept, or few."""
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
    """Yield edits of a trace: fewer steps, then the same edit in all steps, then one step by itself."""
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
    for row in range(max(len(step.batch.requests) for step in steps)):
        yield lambda row=row: [_without(step, row) for step in steps]  # type: ignore[misc]
        for most in (1, 2):
            # What compares steps by their longest query or their size sees no difference.
            yield lambda row=row, most=most: _of_one_size(  # type: ignore[misc]
                [_all_capped(_without(step, row), "query_len", most) for step in steps]
            )
        for name in ("query_len", "context_len"):
            for most in (0, 1, 2):
                yield lambda row=row, name=name, most=most: [  # type: ignore[misc]
                    _capped(step, row, name, most) for step in steps
                ]
    for k, step in enumerate(steps):
        for build in _edits(step):
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
    """Yield edits that every step of a trace gets: one field neutral, smaller blocks, fresh ids."""
    for name in (f.name for f in fields(Layout)):
        neutral = {name: getattr(Layout(), name)}
        yield lambda case, neutral=neutral: replace(case, layout=replace(case.layout, **neutral))  # type: ignore[misc]
    for name in (f.name for f in fields(Options)):
        for value in dict.fromkeys((getattr(Options(), name), 1, 2)):
            yield lambda case, name=name, value=value: replace(  # type: ignore[misc]
                case, options=replace(case.options, **{name: value})
            )
    yield lambda case: replace(
        case, batch=replace(case.batch, world=1), options=replace(case.options, rank=0)
    )
    for size in (1, 2, 3, 4):
        yield lambda case, size=size: _with_block_size(case, size)  # type: ignore[misc]
    yield lambda case: _with_block_size(case, case.batch.block_size)


def _without(case: Case, row: int) -> Case:
    """Return the case without the request of a row, as it is where there is none."""
    return _keep(case, [b for b in range(len(case.batch.requests)) if b != row])


def _capped(case: Case, row: int, name: str, most: int) -> Case:
    """Return the case with one length of a row at most so long, as it is where there is no such row."""
    if row >= len(case.batch.requests) or getattr(case.batch.requests[row], name) <= most:
        return case
    return _shorten(case, row, name, most)


def _as_padded(case: Case, num_tokens: int, num_requests: int) -> Case:
    """Return a step padded to so many tokens and requests, as captured graphs have them."""
    tokens, requests = num_tokens - case.batch.num_tokens, num_requests - len(case.batch.requests)
    return replace(
        case, layout=replace(case.layout, num_padding_tokens=tokens, num_padding_requests=requests)
    )


def _of_one_size(steps: list[Case]) -> list[Case]:
    """Return the steps padded to the tokens and requests of the largest."""
    tokens = max(step.batch.num_tokens for step in steps)
    requests = max(len(step.batch.requests) for step in steps)
    return [_as_padded(step, tokens, requests) for step in steps]


def _valid(build: Callable[[], Case]) -> Case | None:
    try:
        return build()
    except ValueError:
        return None


def _edits(case: Case) -> Iterator[Callable[[], Case]]:
    yield from _fewer_requests(case)
    yield from _single_requests(case)
    yield from _shorter_lengths(case)
    yield from _neutral_fields(case)
    yield from _smaller_blocks(case)


def _fewer_requests(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that drop all requests, each half, each quarter and so on, to sixteenths."""
    count = len(case.batch.requests)
    width = count
    while width > max(1, count // 32):
        yield from _without_each(case, width)
        width //= 2


def _single_requests(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that drop smaller groups, down to one request."""
    width = max(1, len(case.batch.requests) // 32)
    while width >= 1:
        yield from _without_each(case, width)
        width //= 2


def _without_each(case: Case, width: int) -> Iterator[Callable[[], Case]]:
    count = len(case.batch.requests)
    for start in range(0, count, width):
        yield lambda start=start: _keep(case, [*range(start), *range(start + width, count)])  # type: ignore[misc]


def _shorter_throughout(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that cut the lengths of all requests at once."""
    for name in ("context_len", "query_len"):
        for most in (0, 1, 2):
            yield lambda name=name, most=most: _all_capped(case, name, most)  # type: ignore[misc]


def _all_capped(case: Case, name: str, most: int) -> Case:
    requests = [_cut(case, r, name, min(getattr(r, name), most)) for r in case.batch.requests]
    return edited(case, requests, case.layout.row_index)


def _cut(case: Case, request: Request, name: str, length: int) -> Request:
    """Return a request with one length changed; without a context it is a prefill."""
    lengths: dict[str, Any] = {name: length}
    if name == "context_len" and length == 0:
        lengths["phase"] = "prefill"
    shorter = replace(request, **lengths)
    return replace(shorter, block_ids=request.block_ids[: case.batch.num_live_blocks(shorter)])


def _keep(case: Case, kept: list[int]) -> Case:
    rows = case.layout.row_index
    requests = [case.batch.requests[b] for b in kept]
    return edited(case, requests, None if rows is None else tuple(rows[b] for b in kept))


def _shorter_lengths(case: Case) -> Iterator[Callable[[], Case]]:
    size = case.batch.tokens_per_block
    for b, request in enumerate(case.batch.requests):
        for name in ("query_len", "context_len"):
            length = getattr(request, name)
            edge = length // size * size
            for shorter in dict.fromkeys((0, 1, 2, length // 2, edge, edge + 1, length - size, length - 1)):
                if 0 <= shorter < length:
                    yield lambda b=b, name=name, shorter=shorter: _shorten(case, b, name, shorter)  # type: ignore[misc]


def _shorten(case: Case, b: int, name: str, length: int) -> Case:
    return _replaced(case, b, _cut(case, case.batch.requests[b], name, length))


def _replaced(case: Case, b: int, request: Request) -> Case:
    requests = list(case.batch.requests)
    requests[b] = request
    return edited(case, requests, case.layout.row_index)


def _neutral_fields(case: Case) -> Iterator[Callable[[], Case]]:
    yield lambda: replace(case, layout=Layout(), options=Options())
    for name in (f.name for f in fields(Layout)):
        value = getattr(case.layout, name)
        default = getattr(Layout(), name)
        for simpler in (default, 1, value // 2 if type(value) is int else default):
            yield lambda name=name, simpler=simpler: replace(  # type: ignore[misc]
                case, layout=replace(case.layout, **{name: simpler})
            )
    for name in (f.name for f in fields(Options)):
        value, default = getattr(case.options, name), getattr(Options(), name)
        smaller = (value // 2, value - 1) if type(value) is int else ()
        for simpler in (default, 1, 2, *smaller):
            yield lambda name=name, simpler=simpler: replace(  # type: ignore[misc]
                case, options=replace(case.options, **{name: simpler})
            )
    yield lambda: replace(case, batch=replace(case.batch, world=1), options=replace(case.options, rank=0))


def _smaller_blocks(case: Case) -> Iterator[Callable[[], Case]]:
    yield lambda: _with_ids(case, lambda ids, live: ids[:live])
    order: dict[int, int] = {-1: -1}
    for request in case.batch.requests:
        for block_id in request.block_ids:
            order.setdefault(block_id, len(order) - 1)
    for reserved in (0, 1):
        yield lambda reserved=reserved: _with_ids(  # type: ignore[misc]
            case, lambda ids, live: tuple(order[i] + reserved if i >= 0 else i for i in ids)
        )
    for size in (1, 2, 3, 4, case.batch.block_size // 2):
        if 0 < size < case.batch.block_size:
            yield lambda size=size: _with_block_size(case, size)  # type: ignore[misc]


def _with_ids(case: Case, change: Callable[[tuple[int, ...], int], tuple[int, ...]]) -> Case:
    requests = [
        replace(r, block_ids=change(r.block_ids, case.batch.num_live_blocks(r))) for r in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def _with_block_size(case: Case, size: int) -> Case:
    """Return the case over smaller blocks with fresh ids, prefix sharing given up."""
    taken = min((i for r in case.batch.requests for i in r.block_ids if i >= 0), default=0)
    requests = []
    for request in case.batch.requests:
        needed = -(-request.seq_len // (size * case.batch.world))
        requests.append(replace(request, block_ids=tuple(range(taken, taken + needed))))
        taken += needed
    return replace(case, batch=Batch(tuple(requests), size, case.batch.world))
