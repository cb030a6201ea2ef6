"""Steps whose lengths end with groups, rings, chunks, pages or tiles, and requests alone in a graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes

PADDED = 63
"""Padded requests of a captured graph in which one request is live."""
TIMES = 8
"""How many groups, rounds of a ring or chunks the cached tokens of each request fill."""


def at_once(
    options: Mapping[str, Any], context_len: int, padded: int, ladder: Ladder, count: int
) -> Case | None:
    """Return a case of ``count`` decodes with so many cached tokens each, and so many padded ones."""
    chosen = ladder.under(**options)
    if chosen is None or (padded and ladder.domain.padding == "none"):
        return None
    return chosen.step([("decode", context_len, 1)] * count, seed=count, padding=(padded, padded))


def in_whole_chunks(absolute: bool, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prompts of one length, each of two whole chunks."""
    chosen = ladder.under(chunk_size=64, absolute_chunks=absolute)
    return None if chosen is None else chosen.step([("prefill", 0, 128)] * count, seed=count, padding=(0, 0))


def in_whole_tiles(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that verify three drafts each, which sample four rows each."""
    verifying = ladder.having("max_drafts", 3) or ladder
    lens = drafted_decodes(count, 65, spread=100, tokens=4)
    return verifying.step(lens, seed=count, padding=(0, 0))


def across_a_page(ladder: Ladder, size: int) -> Case | None:
    """Return a case of a chunk of ``size`` tokens, which ends groups in two pages of 128 of them."""
    grouped = ladder.having("compress_ratio", 128)
    if grouped is None or 128 not in grouped.sizes:
        return None
    lens: list[Lens] = [("prefill", 128 * 128 - size // 2, size), ("decode", 300, 1)]
    return grouped.step(lens, seed=size, padding=(0, 0), block_size=128)


def alone_in_a_graph(lens: Lens, options: Mapping[str, Any], ladder: Ladder, padded: int) -> Case | None:
    """Return a case of one request, and so many padded ones."""
    chosen = ladder.under(**options)
    if chosen is None or ladder.domain.padding == "none":
        return None
    return chosen.unlimited.step([lens], seed=padded, padding=(0, padded))


_CHUNKS: Mapping[str, Any] = {"chunk_size": 64, "absolute_chunks": True}
_GRAPH = (PADDED,)
COINCIDING: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "groups of 128 that end together": (
        partial(at_once, {"compress_ratio": 128}, TIMES * 128 - 1, 0),
        (37, 9),
    ),
    "groups of 4 that end together": (partial(at_once, {"compress_ratio": 4}, TIMES * 4 - 1, 0), (37,)),
    "rings of 192 that begin together": (partial(at_once, {"ring_capacity": 192}, TIMES * 192, 0), (37,)),
    "chunks that end together, padded": (partial(at_once, _CHUNKS, TIMES * 64 - 1, 3), (37, 5)),
    "beyond a window together, padded": (partial(at_once, {"window": 1_024}, 1_100, 8), (56, 8)),
    "hundreds of one length": (partial(at_once, {"topk": 512}, 99, 0), (303, 67)),
    "prompts of two whole chunks": (partial(in_whole_chunks, False), (37, 19)),
    "prompts of two whole chunks by position": (partial(in_whole_chunks, True), (37, 19)),
    "drafts in whole tiles": (in_whole_tiles, (128, 64)),
    "a chunk of groups in two pages": (across_a_page, (1_030,)),
    "a deep decode alone in a graph": (partial(alone_in_a_graph, ("decode", 20_003, 1), {}), _GRAPH),
    "a chunk alone in a graph": (partial(alone_in_a_graph, ("prefill", 70, 1_300), {}), _GRAPH),
    "groups alone in a graph": (
        partial(alone_in_a_graph, ("prefill", 0, 1_300), {"compress_ratio": 4}),
        _GRAPH,
    ),
    "a far context alone in a graph, on ranks": (
        partial(alone_in_a_graph, ("decode", 131_075, 1), {"world": 2}),
        _GRAPH,
    ),
    "chunks alone in a graph": (partial(alone_in_a_graph, ("prefill", 0, 301), _CHUNKS), _GRAPH),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
