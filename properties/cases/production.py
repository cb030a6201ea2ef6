"""Steps as busy engines run them: all requests the same, decodes before others, one prompt for all, holes.

A profile run, a benchmark and a captured graph have requests that are all the same. A busy engine has
hundreds of decodes, and a few long requests before or behind them.
"""

from dataclasses import replace

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.draws import edited
from cumae.properties.cases.ladder import Ladder

LONG, CHUNK, PROMPT = 4_177, 301, 133
"""Cached tokens of a long decode, new ones of a later chunk and of a new prompt: several tiles each."""
WINDOW = 128


def identical(one: Lens, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests with the same lengths, without padding."""
    return ladder.step([one] * count, seed=count, padding=(0, 0))


def decodes_and_others(others_first: bool, scope: str, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind or before a long decode, a later chunk and a prompt.

    ``scope``: the requests whose keys count, where that may be some.
    """
    scoped = ladder.having("key_scope", scope)
    if scope != "all" and scoped is None:
        return None
    ladder = scoped or ladder
    lens: list[Lens] = [("decode", 1 + mixed(b) % 40, 1) for b in range(count)]
    others: list[Lens] = [("decode", LONG, 1), ("prefill", 20, CHUNK), ("prefill", 0, PROMPT)]
    return ladder.unlimited.step(others + lens if others_first else lens + others, seed=count)


def with_one_prompt(count: int, ladder: Ladder, pages: int) -> Case | None:
    """Return a case of ``count`` decodes that share their first pages; each has a page of its own behind."""
    whole = ladder.without("world", "window", "missing_blocks")
    size = whole.usual_block
    lens: list[Lens] = [("decode", pages * size + mixed(b) % size, 1) for b in range(count)]
    case = whole.step(lens, seed=count + pages, block_size=size)
    if case is None:
        return None
    requests = case.batch.requests
    held = min(min(request.context_len for request in requests) // size, pages)
    shared = requests[0].block_ids[:held]
    sharing = [replace(r, block_ids=shared + r.block_ids[held:]) for r in requests]
    return edited(case, sharing, case.layout.row_index)


def holey_decodes(windowed: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, every second of which lacks pages between others."""
    limited = ladder.having("window", WINDOW) if windowed else ladder
    if limited is None:
        return None
    lens: list[Lens] = [("decode", 20 + mixed(b) % 200, 1) for b in range(count)]
    return limited.step(lens, seed=count, holes=True)
