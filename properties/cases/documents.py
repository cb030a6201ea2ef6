"""Steps of a few long documents or drafts among others, of whole chunks, and of whole tiles."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.crowds import Lens
from cumae.properties.cases.engine_steps import SELECTIONS
from cumae.properties.cases.ladder import Ladder
from cumae.properties.cases.served import with_drafts

LONG, FAR = 8_300, 17_001
"""Cached tokens of documents, and of one that is longer still."""
CHATS, MANY = 900, 2_050
"""Cached tokens that a chat has at most, beside 65, and those that a longer one has besides."""
TARGETS, MOST_DRAFTS = 128, 7
"""Drafts of a step that fill a tile, and those of a request at most."""


def _long_at(places: Sequence[int], lens: Sequence[Lens], length: int = LONG) -> list[Lens]:
    """Return the requests, of which those at these places are documents of as many cached tokens or more."""
    found = list(lens)
    for i, place in enumerate(places):
        phase, _, query_len = found[place]
        found[place] = phase, length + 611 * i, query_len
    return found


def among_chats(world: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes on so many ranks, three of which lie behind documents."""
    for option, value in SELECTIONS.items():
        ladder = ladder.having(option, value) or ladder
    ranks = ladder.unlimited if world == 1 else ladder.having("world", world)
    lens: list[Lens] = [("decode", 65 + mixed(b) % CHATS, 1) for b in range(count)]
    places = 2, count // 2, count - 3
    return None if ranks is None else ranks.step(_long_at(places, lens), seed=count, padding=(0, 0))


def long_and_short(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that in turns see fewer keys than are selected, and more."""
    for option, value in SELECTIONS.items():
        ladder = ladder.having(option, value) or ladder
    lens: list[Lens] = [("decode", 65 + mixed(b) % CHATS + b % 2 * MANY, 1) for b in range(count)]
    return ladder.unlimited.step(lens, seed=count, padding=(0, 0))


def last_far(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, of which the last lies far behind the others."""
    lens: list[Lens] = [("decode", 65 + mixed(b) % CHATS, 1) for b in range(count)]
    return ladder.unlimited.step(_long_at([count - 1], lens, FAR), seed=count, padding=(0, 0))


def beside_turns(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prefills behind short prefixes, but two behind documents, in many chunks."""
    ladder = ladder.having("chunk_blocks", 32) or ladder
    lens: list[Lens] = [("prefill", 65 + mixed(b) % 440, 5 + mixed(b, 1) % 60) for b in range(count)]
    return ladder.unlimited.step(_long_at((2, count - 3), lens), seed=count, padding=(0, 0))


def whole_chunk(options: Mapping[str, Any], ladder: Ladder, size: int) -> Case | None:
    """Return a case of a chunk of ``size`` tokens, alone behind two of them, under these options."""
    for option, value in options.items():
        if (having := ladder.having(option, value)) is None:
            return None
        ladder = having
    return ladder.unlimited.step([("prefill", 2 * size, size)], seed=size, padding=(0, 0))


def whole_tiles_of_keys(tile: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes whose keys are a multiple of so many."""
    ladder = ladder.having("topk", tile) or ladder
    contexts = [65 + mixed(b) % 300 for b in range(count)]
    rest = -sum(context_len + 1 for context_len in contexts) % tile
    lens: list[Lens] = [("decode", n + (rest + b) // count, 1) for b, n in enumerate(contexts)]
    return ladder.unlimited.step(lens, seed=count, padding=(0, 0))


def whole_tiles_of_drafts(ladder: Ladder, tiles: int) -> Case | None:
    """Return a case of decodes that verify so many tiles of drafts, each from one to seven."""
    drafting, left, lens = ladder.having("max_drafts", MOST_DRAFTS), tiles * TARGETS, list[Lens]()
    while left > 0:
        drafts = min(1 + mixed(len(lens), 2) % MOST_DRAFTS, left)
        lens.append(("decode", with_drafts(65 + mixed(len(lens)) % CHATS, drafts + 1), drafts + 1))
        left -= drafts
    return None if drafting is None else drafting.step(lens, seed=tiles, padding=(0, 0))


def drafts_before_prompts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of four tokens, whose keys do not count, and two prefills.

    One goes on, the other begins.
    """
    drafting = ladder.having("max_drafts", 3) or ladder
    scoped = drafting.having("key_scope", "prefill")
    lens: list[Lens] = [("decode", with_drafts(65 + mixed(b) % CHATS, 4), 4) for b in range(count)]
    lens += [("prefill", 300, 140), ("prefill", 0, 150)]
    return None if scoped is None else scoped.step(lens, seed=count, padding=(0, 0))


def few_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, three of which verify drafts, as n-grams give them."""
    drafting = ladder.having("max_drafts", MOST_DRAFTS) or ladder.having("compress_ratio", 4) or ladder
    lens: list[Lens] = [("decode", 65 + mixed(b) % CHATS, 1) for b in range(count)]
    for place, new in ((2, 5), (count // 2, 3), (count - 3, 8)):
        lens[place] = "decode", with_drafts(65 + 100 * new, new), new
    return drafting.step(lens, seed=count, padding=(0, 0))


DOCUMENTS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "documents among chats": (partial(among_chats, 1), (19,)),
    "documents among chats, on ranks": (partial(among_chats, 4), (19,)),
    "long and short in turns": (long_and_short, (66, 18)),
    "the last far": (last_far, (19,)),
    "documents beside turns": (beside_turns, (13,)),
    "a whole chunk alone": (partial(whole_chunk, {}), (8_192, 4_096, 2_048)),
    "a whole chunk alone, in groups": (partial(whole_chunk, {"compress_ratio": 4}), (8_192, 4_096)),
    "a whole chunk alone, cut by position": (
        partial(whole_chunk, {"chunk_size": 64, "absolute_chunks": True}),
        (8_192, 4_096),
    ),
    "whole tiles of keys": (partial(whole_tiles_of_keys, 4_096), (19,)),
    "a whole tile of keys": (partial(whole_tiles_of_keys, 1_024), (5,)),
    "whole tiles of drafts": (whole_tiles_of_drafts, (2, 1)),
    "few drafts": (few_drafts, (19,)),
    "drafts before prompts": (drafts_before_prompts, (9,)),
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
