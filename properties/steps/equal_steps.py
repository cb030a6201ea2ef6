"""Steps of requests that are equal, or end at one position, under each option of an operation."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from cumae.oracle import Case
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

PROMPTS: list[Lens] = [("prefill", 0, 11)] * 5
DECODES: list[Lens] = [("decode", 37, 1)] * 5
ENDING = (12, 1, 22, 13, 12)
"""New tokens of requests that end at one position: on average as many as the first and the last one have."""
REQUESTS: Mapping[str, list[Lens]] = {
    "equal prompts": PROMPTS,
    "equal decodes": DECODES,
    "equal chunks": [("prefill", 21, 6)] * 5,
    "equal drafts": [("decode", 38, 4)] * 5,
    "equal ends": [("prefill", 43 - new, new) for new in ENDING],
    "equal prompts, then equal decodes": PROMPTS[:3] + DECODES[:3],
}
"""Requests whose lengths are no multiple of the sizes below, and longer than most of these."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "in groups": {"compress_ratio": 4},
    "on ranks": {"world": 2},
    "on ranks that take turns of 4": {"world": 2, "interleave": 4},
    "on 8 ranks that take turns of 2": {"world": 8, "interleave": 2},
    "in windows": {"window": 24},
    "whose prompts' keys count": {"key_scope": "prefill"},
    "in groups, whose prompts' keys count": {"key_scope": "prefill", "compress_ratio": 4},
    "in rings": {"ring_capacity": 32},
    "in chunks": {"chunk_size": 8, "absolute_chunks": False},
    "in chunks of positions": {"chunk_size": 8, "absolute_chunks": True},
    "that select": {"topk": 16},
    "with drafts": {"max_drafts": 3},
}
"""By name: the options of a step. A kernel has code of its own for most of them."""


def equal(lens: Sequence[Lens], options: Mapping[str, Any], ladder: Ladder, count: int) -> Case | None:
    """Return a case of these requests, without padding, under these options."""
    chosen = ladder.under(**options)
    return None if chosen is None else chosen.step(lens[:count], seed=count, padding=(0, 0))


EQUAL: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    f"{requests} {under}": (partial(equal, REQUESTS[requests], OPTIONS[under]), (len(REQUESTS[requests]), 3))
    for under, requests in product(OPTIONS, REQUESTS)
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
