"""Metamorphic relations: elements of a function's answers on related cases that must correspond.

A relation reads the axis of an output. It is checked only on elements where the oracle's own answers keep
it, so a function is never held to more than its operation specifies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of, num_logits_of
from cumae.properties.cases.draws import edited, permuted, renamed
from cumae.properties.comparing.parts import Part
from cumae.properties.comparing.relation import Fact, Indices, Move, Pairs
from cumae.properties.running.words import Words


def _indices(counts: Sequence[int], b: int) -> Indices:
    start = sum(counts[:b])
    return np.arange(start, start + counts[b])


def _middle(case: Case) -> int:
    return (len(case.batch.requests) + 1) // 2


def _in_place(here: Part, there: Part, first: tuple[int, int] = (0, 0), k: int = 0) -> Pairs:
    """Return the pairs of elements at equal places, counted from the given first ones."""
    count = max(0, min(len(here.words) - first[0], len(there.words) - first[1]))
    each = np.arange(count)
    return Pairs(k, each + first[0], each + first[1], np.full(count, -1))


def _of_requests(
    k: int, here: Sequence[int], there: Sequence[int], to: Sequence[tuple[int, int]], *moves: Move
) -> Pairs:
    """Return the pairs of the elements of requests; ``to``: requests and their index in the other case."""
    starts, others = (np.concatenate([[0], np.cumsum(counts)]).astype(np.int64) for counts in (here, there))
    alike = [(b, other) for b, other in to if here[b] == there[other]]
    lens = np.array([here[b] for b, _ in alike], dtype=np.int64)
    within = np.arange(lens.sum()) - np.repeat(np.cumsum(lens) - lens, lens)
    found = (
        np.repeat(np.array([first[i] for i in which], dtype=np.int64), lens)
        for first, which in ((starts, [b for b, _ in alike]), (others, [b for _, b in alike]))
    )
    first, second = (start + within for start in found)
    return Pairs(k, first, second, np.repeat(np.array([b for b, _ in alike], dtype=np.int64), lens), moves)


def _with_empty(case: Case) -> list[Case]:
    requests, rows, at = list(case.batch.requests), case.layout.row_index, _middle(case)
    requests.insert(at, Request(0, 0))
    if rows is not None:
        rows = (*rows[:at], max(rows, default=-1) + 1, *rows[at:])
    return [edited(case, requests, rows)]


def _beside_an_empty_one(case: Case, base: Part, others: Sequence[Part]) -> Iterator[Pairs]:
    at, count, (other,) = _middle(case), len(case.batch.requests), others

    def counts_requests(words: Words) -> Words:
        return np.where(words >= at, words + 1, words)

    if base.counts is not None and other.counts is not None:
        to = [(b, b + (b >= at)) for b in range(count)]
        yield _of_requests(0, base.counts, other.counts, to, counts_requests)
        yield _in_place(base, other, (sum(base.counts), sum(other.counts)))
    elif base.per:
        each = np.arange(len(base.words))
        there = np.where(each < at * base.per, each, each + base.per)
        yield Pairs(0, each, there, np.full(len(each), -1))
    else:
        yield _in_place(base, other)


def _reversed(case: Case) -> list[Case]:
    return [permuted(case, list(range(len(case.batch.requests)))[::-1])]


def _with_their_requests(case: Case, base: Part, others: Sequence[Part]) -> Iterator[Pairs]:
    count, (other,) = len(case.batch.requests), others

    def counts_requests(words: Words) -> Words:
        return np.where((words >= 0) & (words < count), count - 1 - words, words)

    if base.counts is not None and other.counts is not None:
        to = [(b, count - 1 - b) for b in range(count)]
        yield _of_requests(0, base.counts, other.counts, to, counts_requests)
    elif not base.per:
        yield _in_place(base, other)


def _halves(case: Case) -> list[Case]:
    at, rows = _middle(case), case.layout.row_index
    requests = list(case.batch.requests)
    first = edited(case, requests[:at], None if rows is None else rows[:at])
    return [first, edited(case, requests[at:], None if rows is None else rows[at:])]


def _one_after_the_other(case: Case, base: Part, others: Sequence[Part]) -> Iterator[Pairs]:
    at, count, first = _middle(case), len(case.batch.requests), _halves(case)[0]
    head, tail = others

    def less(shift: int) -> Move:
        return lambda words: words - shift

    if base.counts is not None and head.counts is not None and tail.counts is not None:
        shifts = dict.fromkeys((at, first.batch.num_tokens, _num_key_rows(first), *_num_sampled(first)))
        yield _of_requests(0, base.counts, head.counts, [(b, b) for b in range(at)])
        to = [(b, b - at) for b in range(at, count)]
        yield _of_requests(1, base.counts, tail.counts, to, *(less(shift) for shift in shifts if shift))
    elif base.per:
        each = np.arange((at + 1) * base.per)
        yield Pairs(0, each, each, np.full(len(each), -1))


def _num_key_rows(case: Case) -> int:
    scope, ratio = case.options.keys.key_scope, case.options.keys.compress_ratio
    kept = [r for r in case.batch.requests if scope == "all" or r.phase == "prefill"]
    return sum(request.seq_len // ratio for request in kept)


def _num_sampled(case: Case) -> tuple[int, int]:
    """Return the sampled rows of a step and its drafts."""
    drafts, requests = case.options.drafts, case.batch.requests
    how = drafts.max_drafts, drafts.draft_seed
    num_logits = sum(num_logits_of(request, *how) for request in requests)
    return num_logits, sum(num_drafts_of(request, *how) for request in requests)


def _longest(case: Case) -> int:
    lens = [request.query_len for request in case.batch.requests]
    return max(range(len(lens)), key=lens.__getitem__, default=-1)


def _chunks(case: Case) -> list[Case]:
    b = _longest(case)
    if b < 0 or case.batch.requests[b].query_len < 2:
        return []
    requests, request = list(case.batch.requests), case.batch.requests[b]
    cut = (request.query_len + 1) // 2
    steps = []
    for context_len, query_len in (
        (request.context_len, cut),
        (request.context_len + cut, request.query_len - cut),
    ):
        requests[b] = replace(request, context_len=context_len, query_len=query_len)
        steps.append(edited(case, requests, case.layout.row_index))
    return steps


def _in_several_chunks(case: Case, base: Part, others: Sequence[Part]) -> Iterator[Pairs]:
    b = _longest(case)
    if base.counts is None:
        return
    done = 0
    for k, other in enumerate(others):
        assert other.counts is not None
        there = _indices(other.counts, b)
        here = _indices(base.counts, b)[done : done + len(there)]
        if other.counts[b] == base.counts[b]:
            return  # an output that counts neither tokens nor keys is not cut into chunks
        yield Pairs(k, here, there[: len(here)], np.full(len(here), b))
        done += len(there)


def _renamed(case: Case) -> list[Case]:
    return [renamed(case, 1)]


def _with_their_blocks(case: Case, base: Part, others: Sequence[Part]) -> Iterator[Pairs]:
    (other,) = others

    def more(slots: int) -> Move:
        return lambda words: np.where(words >= 0, words + slots, words)

    blocks = case.batch.block_size // case.kernel_block_size
    yield _in_place(base, other)._replace(moves=(more(case.batch.block_size), more(blocks)))


FACTS = {
    "empty_request": Fact(
        "inserting a request with context 0 and query 0 changes only indices",
        "{what} changed when an empty request was inserted in the middle",
        _with_empty,
        _beside_an_empty_one,
    ),
    "order": Fact(
        "permuting requests permutes their positions, slots, experts and lengths of windows",
        "{what}{whose} changed when the requests were reversed",
        _reversed,
        _with_their_requests,
    ),
    "halves": Fact(
        "the answer for batch A followed by batch B is A's answer, then B's answer shifted",
        "{what} of two batches in one step is not the first batch's followed by the second's",
        _halves,
        _one_after_the_other,
    ),
    "chunks": Fact(
        "one chunk of n tokens gives the same values as several chunks",
        "{what}{whose} changed when its tokens were cut into two chunks",
        _chunks,
        _in_several_chunks,
    ),
    "renaming": Fact(
        "renaming physical blocks renames slots and pages, and changes nothing else",
        "{what}{whose} did not change as its block did when every block id was raised by one",
        _renamed,
        _with_their_blocks,
    ),
}
