"""A step of one mixture of requests under one circumstance, chosen apart from each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

LEAST, SPREAD = 65, 300
"""Cached tokens of a usual request: the least, and by how many more they differ."""
NEW, PAIR, DRAFTED, MOST_DRAFTED = 40, 2, 4, 6
"""New tokens of a chunk or a prompt, and of decodes that verify drafts."""
SOME = (37, 9)
"""Requests of a step; the fewer where more are too much."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """What is the same for all requests of a step.

    ``cached``: the cached tokens of a request, by its number and the number of requests; ``long``: the new
    tokens of a chunk. ``pages``: tokens of a page, 0 for usual ones. ``padding``: padded tokens and requests
    for so many of both. ``options``: those of the step, ``prefers``: those that it has where they vary;
    ``rows``: the format of latent rows. ``counts``: how many requests there are, the first that is not too
    much; ``change``: the case that is shown instead.
    """

    cached: Callable[[int, int], int] = field(default=lambda b, count: LEAST + mixed(b) % SPREAD)
    long: int = NEW
    pages: int = 0
    padding: Callable[[int, int], tuple[int, int]] = field(default=lambda tokens, count: (0, 0))
    options: Mapping[str, Any] = field(default_factory=dict)
    prefers: Mapping[str, Any] = field(default_factory=dict)
    rows: str = ""
    counts: Sequence[int] = SOME
    change: Callable[[Ladder, Case], Case | None] = field(default=lambda ladder, case: case)


MIXTURES: Mapping[str, Callable[[int, int], str]] = {
    "decodes": lambda count, b: "decode",
    "pairs": lambda count, b: "pair",
    "drafts": lambda count, b: "draft",
    "any drafts": lambda count, b: "any draft",
    "decodes, then a chunk": lambda count, b: "chunk" if b == count - 1 else "decode",
    "a chunk, then drafts": lambda count, b: "draft" if b else "chunk",
    "decodes among chunks": lambda count, b: "decode" if b % 3 else "chunk",
    "chunks": lambda count, b: "chunk",
    "new and cached prompts": lambda count, b: "chunk" if b % 3 else "prompt",
}
"""By name: the kind of a request, by the number of requests and its own."""


def lens_of(kind: str, b: int, cached: int, new: int = NEW) -> Lens:
    """Return the lengths of a request of one kind. ``new``: the new tokens of a chunk or a prompt."""
    tokens = {"decode": 1, "pair": PAIR, "draft": DRAFTED, "any draft": 1 + mixed(b, 1) % MOST_DRAFTED}
    if kind in tokens:
        return "decode", cached, tokens[kind]
    return "prefill", 0 if kind == "prompt" else cached, new + mixed(b, 2) % NEW


def step_of(kinds: str, under: Circumstance, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests of a mixture, under a circumstance."""
    chosen = ladder.in_rows_of(under.rows) if under.rows else ladder
    chosen = None if chosen is None else chosen.under(**under.options)
    if chosen is None or (under.pages and under.pages not in chosen.sizes):
        return None
    kind_of = MIXTURES[kinds]
    lens = [lens_of(kind_of(count, b), b, under.cached(b, count), under.long) for b in range(count)]
    whole = {"kernel_block_size": under.pages} if under.pages and not under.options else {}
    chosen = chosen.preferring(**whole, **under.prefers)
    padding = under.padding(sum(new for _, _, new in lens), count)
    if "window" not in under.options:
        chosen = chosen.unlimited
    drafted = {new for phase, _, new in lens if phase == "decode"}
    chosen = chosen.having("max_drafts", max(drafted, default=1) - 1) or chosen
    case = chosen.step(lens, seed=count, padding=padding, block_size=under.pages)
    return None if case is None else under.change(chosen, case)
