"""Steps as served models run them: each kind of step under the options of each kind of model.

A fast path is taken for one kind of step, and holds for the options of one model: both come together here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count as count_from
from itertools import islice

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.models import WINDOW, Of, Served

ROUND = 512
"""Positions of a round of all ranks, or a multiple of them."""
Build = Callable[[Served, int], Case | None]


def full_graph(model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes, padded to a captured size with as many requests as tokens."""
    padded = -count % model.captured
    return model.step([("decode", model.context(b), 1) for b in range(count)], count, (padded, padded))


def one_length(part: int, model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one length, which begin a page: the limit, or a part of it."""
    length = max(model.near // ROUND, 2) * ROUND // part
    return model.step([("decode", length, 1)] * count, count, (0, 0))


def verifying(tokens: int, model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``tokens`` each; two or four are padded as in a graph."""
    padded = -count % model.captured if tokens in (2, 4) else 0
    lens = [_verifying(model, b, tokens) for b in range(count)]
    return drafting(model, tokens).step(lens, count, (padded * tokens, padded))


def trees(model: Served, count: int) -> Case | None:
    """Return a case of a few decodes, each of which verifies a tree of 64 tokens."""
    return verifying(64, model, 2 + count // 7)


def then_chunks(tokens: int, model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``tokens`` each, behind them a short and a long chunk."""
    lens = [_verifying(model, b, tokens) for b in range(count)]
    lens += [("prefill", model.near - 90, 150), ("prefill", 512, 32 * count)]
    return drafting(model, tokens).step(lens, count, (9, 7))


def chunks_first(model: Served, count: int) -> Case | None:
    """Return a case of a long chunk before ``count`` decodes, with another in their middle."""
    lens: list[Lens] = [("decode", model.context(b), 1) for b in range(count)]
    lens[count // 2 : count // 2] = [("prefill", model.near - 90, 520)]
    return model.step([("prefill", 512, max(32 * count, 1_100)), *lens], count, (5, 3))


def short_prompts(model: Served, count: int) -> Case | None:
    """Return a case of two thirds of ``count`` new prompts of 33 to 64 tokens each, without padding."""
    return model.step([("prefill", 0, 33 + mixed(b) % 32) for b in range(2 * count // 3)], count, (0, 0))


def prompts(model: Served, count: int) -> Case | None:
    """Return a case of a quarter of ``count`` prompts of 128 tokens or more, padded by a tile of rows.

    Every third is new; the others have one or two cached pages, the first of which they share.
    """
    unit = model.block_size * model.world
    lens: list[Lens] = [("prefill", unit * (b % 3), 128 + mixed(b) % 300) for b in range(6 + count // 4)]
    case = model.step(lens, count, (70, 1))
    return None if case is None else sharing(case, lambda b: min(b % 3, 1))


def chunks(model: Served, count: int) -> Case | None:
    """Return a case of ``count`` later chunks of 1 to 6 tokens each, and one request without new ones."""
    lens: list[Lens] = [("prefill", model.context(b), 1 + mixed(b, 1) % 6) for b in range(count)]
    lens[count // 2] = ("prefill", 70, 0)
    return model.step(lens, count, (3, 0))


def full_hits(model: Served, count: int) -> Case | None:
    """Return a case of ``count`` prompts that are cached but for their last token."""
    return model.step([("prefill", model.context(b), 1) for b in range(count)], count, (0, 0))


def freed_pages(model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes, or chunks in turns, without the pages in front of their window.

    Their pages are rather small, so that many are freed.
    """
    if not model.ladder.misses_blocks:
        return None
    sizes = sorted(model.block_sizes)
    model = replace(model, block_sizes=(sizes[(len(sizes) - 1) // 2],))
    case = model.pick(Of.VARIANT, (full_graph, chunks))(model, count)
    if case is None:
        return None
    size, requests = case.batch.tokens_per_block, []
    for request in case.batch.requests:
        freed = min(max(request.context_len + 1 - WINDOW, 0) // size, len(request.block_ids))
        requests.append(having_blocks(request, (-1,) * freed + request.block_ids[freed:]))
    return edited(case, requests, case.layout.row_index)


def two_prompts(model: Served, count: int) -> Case | None:
    """Return a case of ``count`` decodes that share their first page; two of five share three pages.

    In turns, the first or the last shares none.
    """
    unit = model.block_size * model.world
    case = model.step(uneven_decodes(count, 3 * unit, spread=40), count)
    if case is None:
        return None
    outsider = model.pick(Of.VARIANT, (-1, 0, len(case.batch.requests) - 1))
    return sharing(case, lambda b: 0 if b == outsider else 3 if b % 5 < 2 else 1)


def one_decode(model: Served, count: int) -> Case | None:
    """Return a case of one decode; behind it, the request fills whole rounds of all ranks."""
    rounds = 134 * count // ROUND
    return model.step([("decode", rounds * ROUND - 1, 1)], count, (0, 0))


def at_the_limit(tokens: int, more: int, model: Served, count: int) -> Case | None:
    """Return a case of decodes of ``tokens`` each, with contexts about ``more`` past the limit."""
    lens: list[Lens] = [("decode", model.near + more + b % 8 - tokens // 2, tokens) for b in range(count)]
    return model.step(lens, count, (0, 0))


def new_prompts(model: Served, count: int) -> Case | None:
    """Return a case of new prompts only: one is long, some are a whole number of chunks."""
    lens = [64 * count + 1, 300, 70 + count, 512, 1, 768, 50]
    return model.step([("prefill", 0, n) for n in lens], count, (model.pick(Of.VARIANT, (2, 70)), 1))


def long_chunk(model: Served, count: int) -> Case | None:
    """Return a case of a chunk of 2,048 tokens or more behind a long context, and a decode before it."""
    lens: list[Lens] = [("decode", model.context(0), 1), ("prefill", 16_384 + 17 * count, 2_048 + 3 * count)]
    return model.step(lens, count, (0, 0))


def crowd(model: Served, count: int) -> Case | None:
    """Return a case of nine times ``count`` decodes of one or two tokens, each with pages of context."""
    tokens = model.pick(Of.VARIANT, (1, 2))
    lens = uneven_decodes(9 * count, 520, spread=500, tokens=tokens)
    return drafting(model, tokens).step(lens, count, (0, 0))


def far(model: Served, size: int) -> Case | None:
    """Return a case of a chunk behind ``size`` cached tokens, and a decode behind nearly as many."""
    model = replace(model, block_sizes=(max(model.block_sizes),))
    return model.step([("decode", size - 1, 1), ("prefill", size, 150), ("decode", 70, 1)], size)


STEPS: Mapping[str, Build] = {
    "full graph": full_graph,
    "long chunk": long_chunk,
    "crowd": crowd,
    "2 tokens each": partial(verifying, 2),
    "freed pages": freed_pages,
    "chunks, then decodes": chunks_first,
    "later chunks": chunks,
    "full hits": full_hits,
    "decodes, then chunks": partial(then_chunks, 1),
    "prompts": prompts,
    "two prompts": two_prompts,
    **{f"{tokens} tokens each": partial(verifying, tokens) for tokens in (3, 4, 5, 8)},
    "trees": trees,
    "drafts, then chunks": partial(then_chunks, 2),
    "short prompts": short_prompts,
    "one decode": one_decode,
    "at the limit": partial(at_the_limit, 4, 0),
    "beyond the limit": partial(at_the_limit, 1, 900),
    "one length": partial(one_length, 1),
    "half the length": partial(one_length, 2),
    "new prompts": new_prompts,
}
"""By name: what builds a step of a model with so many requests."""


def drafting(model: Served, tokens: int) -> Served:
    """Return the model with as many drafts of a request as leave one token of these."""
    having = model.ladder.having("max_drafts", tokens - 1)
    return model if having is None else replace(model, ladder=having)


def _verifying(model: Served, number: int, tokens: int) -> Lens:
    """Return a decode that has as many drafts as it can have."""
    return "decode", with_drafts(model.context(number), tokens), tokens


def with_drafts(context: int, tokens: int) -> int:
    """Return the first context from this one on with which a decode has as many drafts as it can have."""
    drafts = tokens - 1
    return next(c for c in count_from(context) if num_drafts_of(Request(c, tokens), drafts) == drafts)


def drafted_decodes(count: int, least: int, *, spread: int, tokens: int) -> list[Lens]:
    """Return decodes that verify as many drafts as ``tokens`` allows.

    Their contexts are the first such ones from numbers on that are scattered over [least, least + spread).
    """
    decodes = uneven_decodes(count, least, spread=spread, tokens=tokens)
    return [(phase, with_drafts(context, tokens), tokens) for phase, context, _ in decodes]


def sharing(
    case: Case, depth_of: Callable[[int], int], family_of: Callable[[int], int] = lambda b: 0
) -> Case:
    """Return the case in which each request shares so many of its first pages, at most, with its family."""
    number = range(len(case.batch.requests))
    depths, families = [depth_of(b) for b in number], [family_of(b) for b in number]
    size, deepest = case.batch.tokens_per_block, max(depths, default=0)
    first = min((i for request in case.batch.requests for i in request.block_ids), default=0)
    free = (first + (k ^ 1) for k in count_from(2))
    prompts = {family: list(islice(free, deepest)) for family in dict.fromkeys(families)}
    requests = []
    for b, request in enumerate(case.batch.requests):
        depth = min(depths[b], request.context_len // size, len(request.block_ids))
        own = islice(free, len(request.block_ids) - depth)
        requests.append(having_blocks(request, (*prompts[families[b]][:depth], *own)))
    return edited(case, requests, case.layout.row_index)
