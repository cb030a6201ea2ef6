"""Edits that make a case smaller, one kind after another; each returns a case or raises ``ValueError``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from itertools import count as count_from
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.draw import NEUTRAL
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.cases.feature import Feature
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.fields import fields_of
from cumae.properties.cases.promises import tokens_each

_OF_ITS_REQUESTS = ("num_padding_tokens", "num_padding_requests", "num_padding_slots", "row_index")
MOST_MERGED = 8
"""Above this count, requests are not merged: dropping and cutting shrink a large case faster."""


def edits(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield all edits of a case."""
    yield from fewer_requests(case)
    yield from single_requests(case)
    yield from merged_requests(case)
    yield from shorter_lengths(case)
    yield from neutral_fields(case)
    yield from shorter_padding(case)
    yield from smaller_blocks(case)


def plain_layout(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield the case with a neutral layout but for its rows and padding: what else it has is by chance."""
    kept = {name: getattr(case.layout, name) for name in _OF_ITS_REQUESTS}
    yield lambda: replace(case, layout=Layout(**kept))


def fewer_requests(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that drop all requests, each half, each quarter and so on, down to sixteenths."""
    count = len(case.batch.requests)
    width = count
    while width > max(1, count // 32):
        yield from _without_each(case, width)
        width //= 2


def single_requests(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that drop smaller groups, down to single requests."""
    width = max(1, len(case.batch.requests) // 32)
    while width >= 1:
        yield from _without_each(case, width)
        width //= 2


def _without_each(case: Case, width: int) -> Iterator[Callable[[], Case]]:
    requests, count = case.batch.requests, len(case.batch.requests)
    for start in range(0, count, width):
        if (
            case.layout.row_index is None
            and requests[start : start + width] == requests[start - width : start]
        ):
            continue  # equal to the group before it, whose removal gives the same case
        yield lambda start=start: keep(case, [*range(start), *range(start + width, count)])  # type: ignore[misc]


def merged_requests(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that merge a request's tokens and blocks into the one before it."""
    count = len(case.batch.requests)
    for b in range(1, count if count <= MOST_MERGED else 0):
        yield lambda b=b: _merged(case, b)  # type: ignore[misc]


def _merged(case: Case, b: int) -> Case:
    before, request = case.batch.requests[b - 1 : b + 1]
    longer = _cut(case, before, "query_len", before.query_len + request.query_len)
    needed = case.batch.num_live_blocks(longer)
    longer = replace(longer, block_ids=(*before.block_ids, *request.block_ids)[:needed])
    without = keep(case, [other for other in range(len(case.batch.requests)) if other != b])
    return _replaced(without, b - 1, longer)


def shorter_throughout(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that empty all requests, halves of them and so on, or cut the lengths of all at once."""
    requests = case.batch.requests
    width = len(requests)
    while width > max(1, len(requests) // 64):
        for start in range(0, len(requests), width):
            if any(request.seq_len for request in requests[start : start + width]):
                yield lambda start=start, width=width: _emptied(case, start, width)  # type: ignore[misc]
        width //= 2
    for name in ("context_len", "query_len"):
        for most in (0, 1, 2):
            yield lambda name=name, most=most: all_capped(case, name, most)  # type: ignore[misc]
    ids = [i for request in requests for i in request.block_ids if i >= 0]
    for most in (0, 1, 2) if len(set(ids)) < len(ids) else ():  # a block that is shared cannot be written to
        yield lambda most=most: all_capped(_apart(case), "context_len", most)  # type: ignore[misc]


def _apart(case: Case) -> Case:
    """Return the case in which each request has blocks of its own: new ones in place of shared ones."""
    seen: set[int] = set()
    free = count_from(1 + max((i for request in case.batch.requests for i in request.block_ids), default=-1))
    requests = []
    for request in case.batch.requests:
        ids = tuple(next(free) if i in seen and i >= 0 else i for i in request.block_ids)
        seen.update(ids)
        requests.append(having_blocks(request, ids))
    return edited(case, requests, case.layout.row_index)


def _emptied(case: Case, start: int, width: int) -> Case:
    requests = list(case.batch.requests)
    requests[start : start + width] = [Request(0, 0)] * len(requests[start : start + width])
    return edited(case, requests, case.layout.row_index)


def all_capped(case: Case, name: str, most: int) -> Case:
    """Return the case with one length of every request capped."""
    requests = [_cut(case, r, name, min(getattr(r, name), most)) for r in case.batch.requests]
    return edited(case, requests, case.layout.row_index)


def _cut(case: Case, request: Request, name: str, length: int) -> Request:
    """Return a request with one length changed; without a context it is a prefill."""
    lengths: dict[str, Any] = {name: length}
    if name == "context_len" and length == 0:
        lengths["phase"] = "prefill"
    shorter = replace(request, **lengths)
    return replace(shorter, block_ids=request.block_ids[: case.batch.num_live_blocks(shorter)])


def keep(case: Case, kept: list[int]) -> Case:
    """Return the case with only these requests."""
    rows = case.layout.row_index
    requests = [case.batch.requests[b] for b in kept]
    return edited(case, requests, None if rows is None else tuple(rows[b] for b in kept))


def shorter_lengths(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that cut a length of a request: to 0, 1, 2, by a half, a quarter …, to a block edge."""
    size = case.batch.tokens_per_block
    for b, request in enumerate(case.batch.requests):
        for name in ("query_len", "context_len"):
            length = getattr(request, name)
            edge = length // size * size
            parts = [length - part for part in _halves(length, size)]
            for shorter in dict.fromkeys((0, 1, 2, *parts, edge, edge + 1, length - size, length - 1)):
                if 0 <= shorter < length:
                    yield lambda b=b, name=name, shorter=shorter: shorten(case, b, name, shorter)  # type: ignore[misc]


def _halves(length: int, least: int) -> Iterator[int]:
    """Yield the half of a length, rounded up, its quarter and so on, while they are larger than a number."""
    part = length - length // 2
    yield part
    while (part := part // 2) > least:
        yield part


def shorten(case: Case, b: int, name: str, length: int) -> Case:
    """Return the case with one length of one request changed."""
    return _replaced(case, b, _cut(case, case.batch.requests[b], name, length))


def _replaced(case: Case, b: int, request: Request) -> Case:
    requests = list(case.batch.requests)
    requests[b] = request
    return edited(case, requests, case.layout.row_index)


def neutral_fields(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that make layout and options neutral, or their numbers smaller."""
    yield lambda: replace(case, layout=Layout(), options=Options())
    have = fields_of(case)
    for row in FEATURES:
        for values in (*_simpler(row, have), *row.simpler):
            yield lambda row=row, values=values: with_fields(case, row, values)  # type: ignore[misc]
    yield lambda: case.laid_out(min_table_columns=0)
    for count in (0, 1, 2, case.layout.num_padding_requests // 2):
        yield lambda count=count: _padded_by(case, count)  # type: ignore[misc]


def shorter_padding(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that cut lengths, and with them the tokens of padded requests that are as long."""
    count, each = case.layout.num_padding_requests, tokens_each(case.batch)
    if each > 1 and case.layout.num_padding_tokens == count * each > 0:
        for build in chain(shorter_throughout(case), shorter_lengths(case)):
            yield lambda build=build: _padded_by(build(), count)  # type: ignore[misc]


def _padded_by(case: Case, count: int) -> Case:
    """Return the case with so many padded requests, each as long as all others, or of one token."""
    tokens = count * tokens_each(case.batch)
    return case.laid_out(num_padding_tokens=tokens, num_padding_requests=count)


def _simpler(row: Feature, have: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield simpler values for the fields of a row: neutral ones, then smaller ones for each."""
    yield tuple(NEUTRAL[name] for name in row.fields)
    for i, name in enumerate(row.fields):
        value = have[name]
        smaller = (value // 2, value - 1) if type(value) is int else ()
        for simpler in (NEUTRAL[name], 1, 2, *smaller):
            yield tuple(simpler if i == j else have[other] for j, other in enumerate(row.fields))


def with_fields(case: Case, row: Feature, values: Sequence[Any]) -> Case:
    """Return the case with other values for the fields of a feature."""
    changed = dict(zip(row.fields, values, strict=True))
    if row.record == "layout":
        return case.laid_out(**changed)
    if row.record == "options":
        return replace(case, options=case.options.having(**changed))
    if not changed:
        return case
    return replace(case, batch=replace(case.batch, **changed), options=case.options.having(rank=0))


def smaller_blocks(case: Case) -> Iterator[Callable[[], Case]]:
    """Yield edits that renumber blocks, drop unneeded ones, or make them smaller."""
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
            yield lambda size=size: with_block_size(case, size)  # type: ignore[misc]


def _with_ids(case: Case, change: Callable[[tuple[int, ...], int], tuple[int, ...]]) -> Case:
    requests = [
        replace(r, block_ids=change(r.block_ids, case.batch.num_live_blocks(r))) for r in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def with_options_of(case: Case, other: Case) -> Case:
    """Return the case in blocks and with the options of another case."""
    return replace(with_block_size(case, other.batch.block_size), options=other.options)


def with_block_size(case: Case, size: int) -> Case:
    """Return the case with smaller blocks and fresh ids, without prefix sharing."""
    taken = min((i for r in case.batch.requests for i in r.block_ids if i >= 0), default=0)
    requests = []
    for request in case.batch.requests:
        needed = -(-request.seq_len // (size * case.batch.world))
        requests.append(replace(request, block_ids=tuple(range(taken, taken + needed))))
        taken += needed
    return replace(case, batch=Batch(tuple(requests), size, case.batch.world))
