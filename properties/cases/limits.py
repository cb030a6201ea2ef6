"""Limit work to a domain's promises on a whole step: uniform decodes, tokens, block ids, order."""

from collections.abc import Callable

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.promises import PLACES
from cumae.properties.cases.requests import MANY, Work


def within(domain: Domain, works: list[Work], tokens_per_block: int) -> list[Work]:
    """Return work that keeps the promises on a whole step; most work is unchanged."""
    if domain.whole_prefixes:
        works = [_behind_whole_blocks(work, tokens_per_block) for work in works]
    if len(works) > MANY:
        works = _as_many_as_fit(domain, works)
    if domain.uniform_decodes or domain.verify_steps:
        alike = _level(works, least=2 if domain.verify_steps else 0)
        if _tokens(alike) < domain.min_tokens:
            alike = _level(works, least=max(work.query_len for work in works))
        works = alike
    before: list[Work] = []
    while _tokens(works) > domain.max_tokens and works != before:
        before, works = works, _with_fewer_tokens(domain, works)
    room, before = domain.max_block_id + 1 - domain.reserved_blocks, []
    while (over := _blocks(works, tokens_per_block) - room) > 0 and works != before:
        before, works = works, _with_fewer_blocks(domain, works, over, tokens_per_block)
    return works if domain.order == "any" else sorted(works, key=PLACES[domain.order])


def _behind_whole_blocks(work: Work, tokens_per_block: int) -> Work:
    """Return the work; a prefill has no more cached tokens than fill whole blocks."""
    begun = work.context_len % tokens_per_block if work.phase == "prefill" else 0
    return work._replace(context_len=work.context_len - begun) if begun else work


def _as_many_as_fit(domain: Domain, works: list[Work]) -> list[Work]:
    """Return the requests that fit if each has one block and one new token; further ones compute nothing.

    Where requests must compute something, further ones are left out. To cut one after the other takes a time
    that grows with the square of their number.
    """
    room, tokens = domain.max_block_id + 1 - domain.reserved_blocks, domain.max_tokens
    may_idle = domain.empty_requests and not (domain.uniform_decodes or domain.verify_steps)
    found: list[Work] = []
    for work in works:
        if work.query_len and not tokens:
            if not may_idle:
                continue
            work = work._replace(query_len=0)
        if (work.context_len or work.query_len) and not room:
            continue
        room -= work.context_len + work.query_len > 0
        tokens -= work.query_len > 0
        found.append(work)
    return found if len(found) >= domain.min_requests else works


def _level(works: list[Work], least: int) -> list[Work]:
    """Return work in which every decode has the first one's number of tokens."""
    lens = [work.query_len for work in works if work.phase == "decode"]
    same = max(lens[0], least) if lens else 0
    return [work._replace(query_len=same) if work.phase == "decode" else work for work in works]


def _tokens(works: list[Work]) -> int:
    return sum(work.query_len for work in works)


def _blocks(works: list[Work], tokens_per_block: int) -> int:
    return sum(-(-(work.context_len + work.query_len) // tokens_per_block) for work in works)


def _with_fewer_tokens(domain: Domain, works: list[Work]) -> list[Work]:
    """Return work with the longest chunk cut, uniform decodes shortened, or the last request removed.

    If nothing can be cut, it is the same.
    """
    least = 2 if domain.verify_steps else int(not domain.empty_requests)
    longest = max(work.query_len for work in works)
    if longest <= least:
        return _without_last(domain, works)
    over = _tokens(works) - domain.max_tokens
    alike = domain.uniform_decodes or domain.verify_steps
    first = next(b for b, work in enumerate(works) if work.query_len == longest)
    if alike and works[first].phase == "decode":
        return [
            w._replace(query_len=max(least, w.query_len // 2)) if w.phase == "decode" else w for w in works
        ]
    return _changed(works, first, lambda work: work._replace(query_len=max(least, longest - over)))


def _with_fewer_blocks(domain: Domain, works: list[Work], over: int, tokens_per_block: int) -> list[Work]:
    """Return work with the longest context cut, else the longest chunk, else without the last request.

    Where no request can be spared, all chunks are cut; if that is not possible either, it is the same.
    """
    first = max(range(len(works)), key=lambda b: works[b].context_len)
    least = int(works[first].phase == "decode")
    if works[first].context_len > least:
        shorter = max(least, works[first].context_len - over * tokens_per_block)
        return _changed(works, first, lambda work: work._replace(context_len=shorter))
    if max(work.query_len for work in works) > 2:
        return [work._replace(query_len=min(work.query_len, 2)) for work in works]
    fewer = _without_last(domain, works)
    if fewer != works:
        return fewer
    least = 2 if domain.verify_steps else int(not domain.empty_requests)
    return [work._replace(query_len=min(work.query_len, least)) for work in works]


def _without_last(domain: Domain, works: list[Work]) -> list[Work]:
    return works[:-1] if len(works) > domain.min_requests else works


def _changed(works: list[Work], which: int, change: Callable[[Work], Work]) -> list[Work]:
    return [change(work) if b == which else work for b, work in enumerate(works)]
