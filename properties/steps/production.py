"""Steps as busy engines run them: all requests the same, decodes before others, one prompt for all, holes.

A profile run, a benchmark and a captured graph have requests that are all the same. A busy engine has
hundreds of decodes, and a few long requests before or behind them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder

DRAFTS = 3
OTHERS: Sequence[Lens] = (
    ("decode", 4_177, 1),
    ("prefill", 20, 613),
    ("decode", 9, 1 + DRAFTS),
    ("prefill", 7, 0),
    ("prefill", 0, 133),
    ("decode", 5, 1),
)
"""A long decode, a later chunk, a verified draft, an idle request, a new prompt and a short decode."""
RUNS: Mapping[str, Callable[[int], Lens]] = {
    "decodes": lambda bits: ("decode", 1 + bits % 40, 1),
    "decodes inside pages": lambda bits: ("decode", 16 * (bits % 3) + 1 + (bits >> 8) % 14, 1),
    "drafts": lambda bits: ("decode", 5 + bits % 40, 1 + DRAFTS),
    "prompts": lambda bits: ("prefill", 0, 1 + bits % 6),
    "chunks": lambda bits: ("prefill", 16 * (1 + bits % 3), 1 + (bits >> 8) % 6),
}
"""Requests of one kind, each from bits of its own."""
WINDOW = 128
FAR = 33_023
"""A context past 2^15, whose next position the last of two ranks owns, however long its runs are."""
LONG = 1_000
"""Cached tokens of a request that is longer than most windows."""


def identical(one: Lens, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests of the same lengths, without padding; long ones have no window."""
    whole = ladder.unlimited if one[1] >= LONG else ladder
    return whole.step([one] * count, seed=count, padding=(0, 0))


def run_and_others(
    kind: str, ladder: Ladder, count: int, scope: str = "all", *, behind: bool = True
) -> Case | None:
    """Return a case of ``count`` requests of one kind, and behind or before them one of each other kind.

    Their table rows are in order, and those of the others are not. ``scope``: the requests whose keys count.
    """
    ladder = ladder.having("max_drafts", DRAFTS) or ladder
    scoped = ladder.having("key_scope", scope)
    if scope != "all" and scoped is None:
        return None
    lens = [RUNS[kind](mixed(b)) for b in range(count)]
    case = (scoped or ladder).unlimited.step([*lens, *OTHERS] if behind else [*OTHERS, *lens], seed=count)
    rows = None if case is None else case.layout.row_index
    if case is None or rows is None or -1 in rows:
        return case
    in_order = sorted(rows)
    return edited(case, list(case.batch.requests), (*in_order[:count], *reversed(in_order[count:])))


def with_one_far(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, one of which has a far longer context than the others."""
    lens = uneven_decodes(count, 1, spread=300)
    lens[count // 3] = ("decode", FAR, 1)
    return ladder.unlimited.step(lens, seed=count)


def for_nobody(rows: int, ladder: Ladder, size: int) -> Case | None:
    """Return a case without requests: ``size`` padded tokens, and ``rows`` padded requests for each ten."""
    return ladder.step([], seed=size + rows, padding=(size, size * rows // 10))


def few_of_many(ladder: Ladder, size: int) -> Case | None:
    """Return a case of nine decodes in a captured size with ``size`` more requests and as many tokens."""
    lens = uneven_decodes(9, 5, spread=90)
    return ladder.step(lens, seed=size, padding=(size, size))


def with_one_prompt(count: int, ladder: Ladder, pages: int, *, chunks: bool = False) -> Case | None:
    """Return a case of ``count`` decodes that share their first pages; each has a page of its own behind.

    ``chunks``: of requests that each have a chunk behind these pages instead, in a table of their rows alone.
    """
    whole = ladder.without("world", "window", "missing_blocks")
    size = whole.usual_block
    lens = uneven_decodes(count, pages * size, spread=size)
    exact = None
    if chunks:
        lens, exact = [("prefill", pages * size, 16 + mixed(b) % 50) for b in range(count)], (0, 0)
    case = whole.step(lens, seed=count + pages, block_size=size, padding=exact, room=exact)
    if case is None or not case.batch.requests:
        return case
    requests = case.batch.requests
    held = min(min(request.context_len for request in requests) // case.batch.tokens_per_block, pages)
    shared = requests[0].block_ids[:held]
    sharing = [replace(r, block_ids=shared + r.block_ids[held:]) for r in requests]
    return edited(case, sharing, case.layout.row_index)


def holey_decodes(windowed: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, every second of which lacks pages between others."""
    limited = ladder.having("window", WINDOW) if windowed else ladder
    if limited is None:
        return None
    lens = uneven_decodes(count, 20, spread=200)
    return limited.step(lens, seed=count, holes=True)


def in_a_row(ladder: Ladder, count: int, *, block_size: int = 0) -> Case | None:
    """Return a case of requests of about ``count`` pages, whose ids lie in a row but for one place each.

    In one they do without exception; in others two in the middle change places, the last is elsewhere, or
    they fall. ``block_size``: the block size, by default the usual one.
    """
    size = block_size or ladder.usual_block
    if size not in ladder.sizes:
        return None
    plain = ladder.without("world", "window", "missing_blocks")
    lens: list[Lens] = [("prefill", 0, count * size), ("prefill", size, (count + 2) * size)]
    lens += [("prefill", size // 2, count * size), ("prefill", 2 * size, (count - 3) * size)]
    case = plain.step(lens, seed=count, block_size=size)
    if case is None:
        return None
    first = min((i for r in case.batch.requests for i in r.block_ids), default=0)
    requests = []
    for b, request in enumerate(case.batch.requests):
        ids = list(range(first, first + len(request.block_ids)))
        first += len(ids) + 1
        half = len(ids) // 2
        if b == 1 and half:
            ids[half - 1 : half + 1] = ids[half], ids[half - 1]
        elif b == 2 and ids:
            ids[-1] = first - 1
        elif b == 3:
            ids.reverse()
        requests.append(replace(request, block_ids=tuple(ids)))
    return edited(case, requests, case.layout.row_index)


def past_the_table(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests, none of which has a block for its last tokens.

    The table has no column for them.
    """
    if not ladder.misses_blocks:
        return None
    lens: list[Lens] = [("prefill", mixed(b) % 70, 20 + mixed(b, 1) % 30) for b in range(count)]
    case = ladder.without("missing_blocks").step(lens, seed=count, padding=(0, 0))
    if case is None:
        return None
    live = [case.batch.num_live_blocks(request) for request in case.batch.requests]
    requests = zip(case.batch.requests, live, strict=True)
    short = [replace(r, block_ids=(*r.block_ids[: n - 1], *[-1] * (n > 0))) for r, n in requests]
    return edited(case, short, case.layout.row_index)
