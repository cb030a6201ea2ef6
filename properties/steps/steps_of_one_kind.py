"""Steps whose requests are all of one kind, and requests that stand alone in one way.

Most steps that an engine runs are alike: only decodes, only first chunks, one busy request among idle ones.
Functions take a faster path for them, and that path has limits of its own.
"""

from collections.abc import Iterator
from itertools import count as count_from

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens, short, uneven_decodes
from cumae.properties.steps.ladder import Ladder

DRAFTS = 5
"""Drafts that each decode of a verify step has."""
TOKENS_OF_A_CHUNK = 4
"""New tokens of a first chunk on average, so that a power of two of them has a power of two of tokens."""


def decodes(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one token each, without padding."""
    lens = uneven_decodes(count, 1, spread=40)
    return ladder.step(lens, seed=count, padding=(0, 0))


def verified(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify equally many drafts, and of more padded requests.

    There are twice as many requests with the padded ones, and as many rows as the next power of two.
    """
    if (drafting := ladder.having("max_drafts", DRAFTS)) is not None:
        ladder = drafting
    lens: list[Lens] = [("decode", _verifying(b), DRAFTS + 1) for b in range(count)]
    num_tokens = count * (DRAFTS + 1)
    rows = 1 << num_tokens.bit_length()
    return ladder.step(lens, seed=count, padding=(rows - num_tokens, count + 2))


def first_chunks(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests without context and ``4 * count`` tokens, without padding.

    The last one is the longest.
    """
    query_lens = [1 + mixed(b) % TOKENS_OF_A_CHUNK for b in range(count - 1)]
    query_lens.append(TOKENS_OF_A_CHUNK * count - sum(query_lens))
    return ladder.step([("prefill", 0, n) for n in query_lens], seed=count, padding=(0, 0))


def begun_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which begins a page."""
    return ladder.step(list(_at_pages(count, ladder.usual_block, 0)), seed=count)


def filled_pages(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, each of which fills a page."""
    return ladder.step(list(_at_pages(count, ladder.usual_block, -1)), seed=count)


def first_alone(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests, of which only the first has new tokens."""
    return _one_busy(ladder, count, 0)


def last_alone(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests, of which only the last has new tokens."""
    return _one_busy(ladder, count, count - 1)


def among_decodes(ladder: Ladder, count: int, num_idle: int = 0) -> Case | None:
    """Return a case of so many decodes of one token, and in their middle one request of six.

    With five idle requests, which stand before it, the step has as many tokens as requests.
    """
    lens = uneven_decodes(count, 1, spread=40)
    lens[count // 4 : count // 4] = [("decode", 3 + b, 0) for b in range(num_idle)]
    lens[count // 2 : count // 2] = [("decode", 20 + count % 7, 6)]
    return ladder.step(lens, seed=count)


def idle_around(ladder: Ladder, count: int) -> Case | None:
    """Return a case of a few requests between two runs of ``count`` requests without new tokens."""
    idle: list[Lens] = [("prefill", 1 + mixed(b) % 5, 0) for b in range(count)]
    return ladder.step([*idle, *short(5), ("decode", 3, 1), *idle], seed=count)


def long_among_idle(ladder: Ladder, size: int) -> Case | None:
    """Return a case of one request with ``size`` new tokens, between two without any."""
    return ladder.step([("prefill", 7, 0), ("prefill", 3, size), ("decode", 5, 0)], seed=size)


def uneven(third: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``3 * count + 3`` decodes: the first, the last and the mean have two new tokens.

    Others have one or three, and every third ``third``; a step of idle ones has two for each busy one.
    """
    query_lens = [2, *(1, 3, third) * count, 2, 2]
    lens: list[Lens] = [("decode", 1 + mixed(b) % 40, n) for b, n in enumerate(query_lens)]
    return ladder.step(lens, seed=count, padding=(0, 0))


def heavy(ladder: Ladder, size: int) -> Case | None:
    """Return a case of decodes with ``size`` cached tokens each, whose sum passes 2^24 and is odd."""
    lens: list[Lens] = [("decode", size, 1) for _ in range(2**24 // size)]
    lens += [("decode", 2, 1), ("prefill", 1, 1)]
    whole = ladder.without("window", "compress_ratio", "key_scope", "kernel_block_size")
    return whole.step(lens, seed=size, block_size=max(ladder.sizes))


def behind(ladder: Ladder, size: int, option: str, value: int) -> Case | None:
    """Return a case of a token behind ``size`` cached ones: it sees few of them, or their rows are narrow."""
    if (few := ladder.having(option, value)) is None:
        return None
    lens: list[Lens] = [("prefill", 2, 3), ("decode", size, 1), ("decode", size // 3, 1), ("prefill", 0, 2)]
    return few.step(lens, seed=size, block_size=few.usual_block)


def single(ladder: Ladder, size: int) -> Case | None:
    """Return a case of one request, with ``size`` new tokens, without a window."""
    return ladder.unlimited.step([("prefill", size // 2, size)], seed=size)


def full_columns(ladder: Ladder, size: int) -> Case | None:
    """Return a case whose longest request fills ``size`` columns, as many as there are."""
    if (exact := ladder.having("page_slack", 0)) is not None:
        ladder = exact
    block_size = min(ladder.sizes)
    lens: list[Lens] = [("prefill", 2, 3), ("decode", size * block_size - 1, 1), ("decode", 4, 1)]
    return ladder.unlimited.step(lens, seed=size, block_size=block_size)


def _verifying(number: int) -> int:
    """Return a context with which a decode has as many drafts as it can have."""
    query_len = DRAFTS + 1
    contexts = count_from(1 + mixed(number) % 30)
    return next(c for c in contexts if num_drafts_of(Request(c, query_len), DRAFTS) == DRAFTS)


def _at_pages(count: int, block_size: int, more: int) -> Iterator[Lens]:
    """Yield decodes whose cached tokens are so many more than whole pages."""
    for b in range(count):
        yield "decode", (1 + mixed(b) % 5) * block_size + more, 1


def _one_busy(ladder: Ladder, count: int, at: int) -> Case | None:
    if (drafting := ladder.having("max_drafts", DRAFTS)) is not None:
        ladder = drafting
    lens: list[Lens] = [("prefill", mixed(b) % 3 * mixed(b, 1) % 20, 0) for b in range(count)]
    lens[at] = ("decode", _verifying(at), DRAFTS + 1)
    return ladder.step(lens, seed=count + at)
