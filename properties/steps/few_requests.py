"""Steps of one or two requests, of idle ones, and of drafts that fill a captured graph exactly."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.busy_steps import in_large_pages
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes, with_drafts

FAR, CACHED, SPREAD = 70_003, 130, 300
"""Cached tokens of a far request and of others."""
DRAFTED = (2, 3, 4, 5, 6, 7, 8, 9, 17)
"""New tokens of a decode that verifies drafts."""
GRAPH = 8
"""Requests of a captured graph."""
PAIRS: Mapping[str, Sequence[Lens]] = {
    "two prompts": (("prefill", 0, 300), ("prefill", 0, 170)),
    "a prompt and a far chunk": (("prefill", 0, 130), ("prefill", FAR, 70)),
    "a chunk and a prompt": (("prefill", 9_001, 70), ("prefill", 0, 130)),
    "a decode and a far one": (("decode", 70, 1), ("decode", FAR, 1)),
    "a far decode and another": (("decode", FAR, 1), ("decode", 70, 1)),
    "a far decode and a prompt": (("decode", FAR, 1), ("prefill", 0, 130)),
}
"""By name: two requests."""
EXACT = ((64, 2), (32, 4), (128, 4), (256, 4), (128, 8))
"""Requests, and new tokens of each, that fill a power of two."""


def _drafting(ladder: Ladder, tokens: int) -> Ladder:
    return ladder.having("max_drafts", tokens - 1) or ladder


def one_drafting(tokens: int, ladder: Ladder, cached: int) -> Case | None:
    """Return a case of one decode that verifies as many drafts as it can, in turns padded as in a graph.

    Some are in pages of one token.
    """
    padded = GRAPH - 1 if tokens % 2 else 0
    size = 1 if tokens % 4 == 1 and 1 in ladder.sizes else 0
    lens: list[Lens] = [("decode", with_drafts(cached, tokens), tokens)]
    padding = padded * tokens, padded
    return _drafting(ladder, tokens).step(lens, seed=tokens, padding=padding, block_size=size)


def one_far(ladder: Ladder, cached: int) -> Case | None:
    """Return a case of one decode behind ``cached`` tokens in a graph of eight."""
    padding = GRAPH - 1, GRAPH - 1
    return in_large_pages(ladder.unlimited, [("decode", cached, 1)], cached, padding)


def one_prefill(cached: int, ladder: Ladder, new: int) -> Case | None:
    """Return a case of one prefill of ``new`` tokens, padded in tokens alone to a power of two."""
    padded = 2 ** new.bit_length() - new
    return ladder.unlimited.step([("prefill", cached, new)], seed=new, padding=(padded, 0))


def two(lens: Sequence[Lens], ladder: Ladder, count: int) -> Case | None:
    """Return a case of two requests."""
    return in_large_pages(ladder.unlimited, lens[:count], count)


def paused(padded: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests with context, all idle, beside padded ones without tokens."""
    lens: list[Lens] = [("prefill", CACHED + mixed(b) % SPREAD, 0) for b in range(count)]
    return ladder.step(lens, seed=count, padding=(padded, padded))


def exactly(tokens: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``tokens`` each, without padding."""
    lens = drafted_decodes(count, CACHED, spread=SPREAD, tokens=tokens)
    return _drafting(ladder, tokens).step(lens, seed=count + tokens, padding=(0, 0))


def in_a_large_graph(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, padded to a multiple of 64 requests."""
    padded = -count % 64
    lens = drafted_decodes(count, 1, spread=SPREAD, tokens=1)
    return ladder.step(lens, seed=count, padding=(padded, padded))


def unevenly(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of one to three tokens, two on average, without padding."""
    lens: list[Lens] = [("decode", CACHED + mixed(b) % SPREAD, (1, 2, 3, 2)[b % 4]) for b in range(count)]
    return _drafting(ladder, 3).step(lens, seed=count, padding=(0, 0))


FEW: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    **{f"one decode of {tokens} tokens": (partial(one_drafting, tokens), (CACHED,)) for tokens in DRAFTED},
    "one far in a graph of eight": (one_far, (FAR,)),
    "one prompt, padded": (partial(one_prefill, 0), (200,)),
    "one chunk, padded": (partial(one_prefill, 530), (90,)),
    **{name: (partial(two, lens), (2,)) for name, lens in PAIRS.items()},
    "paused": (partial(paused, 0), (37, 9)),
    "paused, in a graph": (partial(paused, 3), (37, 9)),
    **{
        f"{count} decodes of {tokens} tokens, exactly": (partial(exactly, tokens), (count,))
        for count, tokens in EXACT
    },
    "a large graph": (in_a_large_graph, (530,)),
    "uneven drafts that fill a graph": (unevenly, (512, 128)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
