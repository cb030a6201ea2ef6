"""The drawing rules for whole cases, shared by Hypothesis and the seeds."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.choices import Choices, all_mixed
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draw import Draw
from cumae.properties.cases.features import NAMES, WORLDS
from cumae.properties.cases.fields import draw_record
from cumae.properties.cases.head_values import HEAD_FEATURES
from cumae.properties.cases.limits import within
from cumae.properties.cases.page_formats import block_sizes
from cumae.properties.cases.promises import tokens_each
from cumae.properties.cases.requests import (
    REQUEST_COUNTS,
    SOME_REQUESTS,
    Work,
    draw_work,
    give_blocks,
    limits_of,
    withhold,
)
from cumae.properties.cases.values import DRAFTS

LONG_PREFILL = 2**15
"""Tokens that the long prefill of a large case has at least, if the case has so many."""
MOST_ENTRIES = 2**25
"""Entries of a large case's block table, if a block size allows it: Python lists of more take a minute."""
MOST_SLOTS = 2**21
"""Slots of a large case's cache that one block of each request has: a slot holds a kilobyte."""
SETTLED_IF_LARGE = ("world", "rank", "interleave", "kernel_block_size", "row_format", *HEAD_FEATURES)
"""Features that do not vary in a large case."""


def draw_case(choices: Choices, domain: Domain, features: Collection[str] = NAMES) -> Case:
    """Return a case of the domain; only ``features`` may differ from their neutral value."""
    block_size = choices.pick(block_sizes(domain, features))
    world = choices.pick(domain.among("world", WORLDS)) if "world" in features else domain.settled("world")
    works = _with_tokens(choices, _draw_works(choices, domain, block_size * world), domain)
    works = within(domain, works, block_size * world)
    requests = give_blocks(choices, domain, works, block_size * world)
    if "missing_blocks" in features and domain.missing_blocks and choices.chance(25):
        requests = withhold(choices, requests, block_size * world)
    batch = Batch(requests, block_size, world)
    layout = draw_layout(choices, domain, batch, features)
    return Case(batch, layout, draw_options(choices, domain, batch, layout, features))


def _draw_works(choices: Choices, domain: Domain, tokens_per_block: int) -> list[Work]:
    """Return a few independent requests, or many short ones that vary a few drawn patterns."""
    most = min(domain.max_requests, 6)
    if domain.verify_steps:
        return _draw_alike(choices, domain, max(most, domain.min_requests), tokens_per_block)
    if most >= domain.min_requests and "decode" in domain.phases and choices.chance(12):
        return _draw_alike(choices, domain, most, tokens_per_block)
    if most >= domain.min_requests and not choices.chance(7):
        count = choices.integer(domain.min_requests, most)
        limits = limits_of(domain)
        return [draw_work(choices, limits, tokens_per_block, large=count <= 3) for _ in range(count)]
    usual = SOME_REQUESTS if choices.chance(50) else REQUEST_COUNTS
    counts = [n for n in usual if domain.min_requests <= n <= domain.max_requests]
    count = choices.pick(counts or (domain.min_requests,))
    most_tokens = max(3, 2000 // max(count, 1))
    narrow = limits_of(domain)._replace(
        max_context_len=min(domain.max_context_len, most_tokens),
        max_query_len=min(domain.max_query_len, most_tokens),
    )
    patterns = [
        draw_work(choices, narrow, tokens_per_block, large=False) for _ in range(choices.integer(1, 4))
    ]
    return _spread(patterns, domain, count, salt=choices.integer(0, 7))


def _spread(patterns: list[Work], domain: Domain, count: int, salt: int = 0) -> list[Work]:
    """Return so many works, each one of the patterns, varied: no two parts of a batch are then alike."""
    bits = all_mixed(count, salt)
    which = (bits % np.uint64(len(patterns))).astype(np.int64)
    contexts = np.array([work.context_len for work in patterns])[which] + _part(bits, 16, 4)
    grows = np.array([work.phase == "prefill" and work.query_len > 0 for work in patterns])
    queries = np.array([work.query_len for work in patterns])[which] + _part(bits, 32, 3) * grows[which]
    return list(
        map(
            Work,
            [patterns[i].phase for i in which.tolist()],
            np.minimum(contexts, domain.max_context_len).tolist(),
            np.minimum(queries, domain.max_query_len).tolist(),
        )
    )


def _part(bits: npt.NDArray[np.uint64], first: int, size: int) -> npt.NDArray[np.int64]:
    """Return numbers below ``size`` from the bits from ``first`` on."""
    return np.asarray((bits >> np.uint64(first)) % np.uint64(size), dtype=np.int64)


def _draw_alike(choices: Choices, domain: Domain, most: int, tokens_per_block: int) -> list[Work]:
    """Return decodes with the same number of tokens, as in a captured graph or a verify step."""
    drafts = DRAFTS if choices.chance(30) else (2, 3, 5)
    query_len = min(choices.pick(drafts if domain.verify_steps else (1, *drafts)), domain.max_query_len)
    decodes = limits_of(domain)._replace(phases=("decode",))
    works = [
        draw_work(choices, decodes, tokens_per_block, large=False)
        for _ in range(choices.integer(max(domain.min_requests, min(most, 1)), most))
    ]
    return [work._replace(query_len=query_len) for work in works]


def _with_tokens(choices: Choices, works: list[Work], domain: Domain) -> list[Work]:
    """Return the works, with tokens added up to the domain's minimum for a step."""
    missing = domain.min_tokens - sum(work.query_len for work in works)
    if missing <= 0:
        return works
    first = choices.integer(0, max(len(works) - 1, 0))
    for b in (*range(first, len(works)), *range(first)):
        more = min(missing, domain.max_query_len - works[b].query_len)
        works[b] = works[b]._replace(query_len=works[b].query_len + more)
        missing -= more
    while missing:
        phase = domain.phases[0]
        works.append(Work(phase, int(phase == "decode"), min(missing, domain.max_query_len)))
        missing -= works[-1].query_len
    return works


def draw_layout(choices: Choices, domain: Domain, batch: Batch, features: Collection[str] = NAMES) -> Layout:
    """Return a layout for the batch: padding, rows, tails, strides and widths."""
    strided = domain.strided and choices.chance(40)
    drawn = draw_record(Draw(choices, domain, batch, strided=strided), "layout", features)
    return paired(Layout(**drawn), domain, batch)


def paired(layout: Layout, domain: Domain, batch: Batch) -> Layout:
    """Return the layout, with as many padded requests as its padded tokens need if a domain promises that."""
    if not domain.padded_together:
        return layout
    each = tokens_each(batch)
    most = (domain.max_tokens - batch.num_tokens) // each, domain.max_requests - len(batch.requests)
    count = max(min(max(layout.num_padding_tokens // each, layout.num_padding_requests), *most), 0)
    return replace(layout, num_padding_tokens=count * each, num_padding_requests=count, num_padding_slots=0)


def draw_options(
    choices: Choices, domain: Domain, batch: Batch, layout: Layout, features: Collection[str]
) -> Options:
    """Return options for a batch in a layout; only ``features`` may differ from their neutral value."""
    keys = choices.pick(("plain", "compressed", "window"))
    return Options.of(**draw_record(Draw(choices, domain, batch, layout, keys=keys), "options", features))


def draw_large_case(
    choices: Choices, domain: Domain, features: Collection[str], num_requests: int, num_tokens: int
) -> Case:
    """Return a case of exactly these requests and tokens: one long prefill, and 64 patterns, varied."""
    long = min(max(num_tokens // 16, LONG_PREFILL), 3 * num_tokens // 4, domain.max_query_len)
    most = MOST_SLOTS // num_requests if {"row_format", "head_format"} & set(features) else max(domain.sizes)
    varied = set(features).difference(SETTLED_IF_LARGE)
    sizes = block_sizes(domain, varied)
    fit = [size for size in sizes if size <= most and num_requests * (long // size) <= MOST_ENTRIES]
    block_size = choices.pick(fit or [max(sizes)])
    world = domain.settled("world")
    limits = limits_of(domain)
    patterns = [draw_work(choices, limits, block_size * world, large=False) for _ in range(64)]
    works: list[Work] = []
    left = num_tokens - long
    for b, work in enumerate(_spread(patterns, domain, num_requests - 1)):
        if work.query_len > left - (num_requests - 1 - b):
            work = Work(work.phase, work.context_len, min(work.query_len, max(left, 0), 1))
        works.append(work)
        left -= work.query_len
    works.insert(num_requests // 2, Work("prefill", 3 * block_size + 1, long + left))
    works = within(domain, works, block_size * world)
    batch = Batch(give_blocks(choices, domain, works, block_size * world), block_size, world)
    layout = draw_layout(choices, domain, batch, features)
    return Case(batch, layout, draw_options(choices, domain, batch, layout, varied))


def permuted(case: Case, order: list[int]) -> Case:
    """Return the case with its requests in another order, and their table rows with them."""
    rows = case.layout.row_index
    return edited(
        case,
        [case.batch.requests[b] for b in order],
        None if rows is None else tuple(rows[b] for b in order),
    )


def renamed(case: Case, offset: int) -> Case:
    """Return the case with every block id raised by ``offset``."""
    requests = [
        having_blocks(request, [i + offset if i >= 0 else i for i in request.block_ids])
        for request in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def having_blocks(request: Request, block_ids: Iterable[int]) -> Request:
    """Return the request with other blocks."""
    return Request(request.context_len, request.query_len, tuple(block_ids), request.phase)


def edited(case: Case, requests: list[Request], row_index: tuple[int, ...] | None) -> Case:
    """Return the case with other requests and everything else unchanged."""
    batch = Batch(tuple(requests), case.batch.block_size, case.batch.world)
    layout = case.layout
    if row_index is not layout.row_index:
        layout = replace(layout, row_index=row_index)
    return Case(batch, layout, case.options)
