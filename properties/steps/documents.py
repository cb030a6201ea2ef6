"""Steps of a few long documents or drafts among others, of whole chunks, and of whole tiles."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.busy_steps import in_large_pages
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.engine_steps import SELECTIONS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.served import drafted_decodes, with_drafts

LONG, FAR = 8_300, 17_001
"""Cached tokens of documents, and of one that is longer still."""
CHATS, MANY = 900, 2_050
"""Cached tokens that a chat has at most, beside 65, and those that a longer one has besides."""
GROUP, WINDOW = 128, 1_024
"""Tokens of a compressed key, and keys of a long window."""
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
    ladder = ladder.preferring(**SELECTIONS)
    ranks = ladder.unlimited if world == 1 else ladder.having("world", world)
    lens = uneven_decodes(count, 65, spread=CHATS)
    places = 2, count // 2, count - 3
    return None if ranks is None else ranks.step(_long_at(places, lens), seed=count, padding=(0, 0))


def long_and_short(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes that in turns see fewer keys than are selected, and more."""
    lens: list[Lens] = [("decode", 65 + mixed(b) % CHATS + b % 2 * MANY, 1) for b in range(count)]
    return ladder.preferring(**SELECTIONS).unlimited.step(lens, seed=count, padding=(0, 0))


def last_far(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, of which the last lies far behind the others."""
    lens = uneven_decodes(count, 65, spread=CHATS)
    return ladder.unlimited.step(_long_at([count - 1], lens, FAR), seed=count, padding=(0, 0))


def deep_in_slots(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind documents, in pages of one token."""
    if 1 not in ladder.sizes:
        return None
    lens: list[Lens] = [("decode", FAR + 611 * b, 1) for b in range(count)]
    return ladder.without("world").unlimited.step(lens, seed=count, padding=(0, 0), block_size=1)


def deep_in_groups(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind documents, in compressed keys of 128 tokens; some end one."""
    grouped = ladder.having("compress_ratio", GROUP)
    ends = (FAR // GROUP + 1) * GROUP - 1
    lens: list[Lens] = [("decode", ends + (b % 4 and mixed(b) % CHATS), 1) for b in range(count)]
    return None if grouped is None else in_large_pages(grouped, lens, count)


def short_behind(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes behind more than 512 tokens, and of one with a single page."""
    lens = uneven_decodes(count, 530, spread=CHATS)
    return ladder.unlimited.step([*lens, ("decode", 5, 1)], seed=count, padding=(0, 0))


def across_a_window(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, which lie in turns within a window of 1,024 keys and beyond it."""
    limited = ladder.having("window", WINDOW)
    lens: list[Lens] = [("decode", 300 + mixed(b) % 600 + b % 2 * WINDOW, 1) for b in range(count)]
    return None if limited is None else limited.step(lens, seed=count, padding=(0, 0))


def chunks_beyond_a_window(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` chunks of 512 tokens, each beyond a window of 1,024 keys."""
    limited = ladder.having("window", WINDOW)
    lens: list[Lens] = [("prefill", WINDOW + 70 + 131 * b, 512) for b in range(count)]
    return None if limited is None else in_large_pages(limited, lens, count)


def prompts_behind_decodes(each: int, num_prompts: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes of ``each`` tokens before one or two prompts, in chunks of 64."""
    cut = ladder.having("chunk_size", 64)
    lens = uneven_decodes(count, 65, spread=CHATS, tokens=each)
    lens += [("prefill", 0, 1_030 + 270 * b) for b in range(num_prompts)]
    return None if cut is None else in_large_pages(cut, lens, count)


def beside_turns(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prefills behind short prefixes, but two behind documents, in many chunks."""
    ladder = ladder.having("chunk_blocks", 32) or ladder
    lens: list[Lens] = [("prefill", 65 + mixed(b) % 440, 5 + mixed(b, 1) % 60) for b in range(count)]
    return ladder.unlimited.step(_long_at((2, count - 3), lens), seed=count, padding=(0, 0))


def whole_chunk(options: Mapping[str, Any], ladder: Ladder, size: int) -> Case | None:
    """Return a case of a chunk of ``size`` tokens, alone behind two of them, under these options."""
    chosen = ladder.under(**options)
    if chosen is None:
        return None
    return chosen.unlimited.step([("prefill", 2 * size, size)], seed=size, padding=(0, 0))


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
    lens = drafted_decodes(count, 65, spread=CHATS, tokens=4)
    lens += [("prefill", 300, 140), ("prefill", 0, 150)]
    return None if scoped is None else scoped.step(lens, seed=count, padding=(0, 0))


def few_drafts(ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes, three of which verify drafts, as n-grams give them."""
    drafting = ladder.preferring(max_drafts=MOST_DRAFTS, compress_ratio=4)
    lens = uneven_decodes(count, 65, spread=CHATS)
    for place, new in ((2, 5), (count // 2, 3), (count - 3, 8)):
        lens[place] = "decode", with_drafts(65 + 100 * new, new), new
    return drafting.step(lens, seed=count, padding=(0, 0))


DOCUMENTS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    "documents among chats": (partial(among_chats, 1), (19,)),
    "documents among chats, on ranks": (partial(among_chats, 4), (19,)),
    "long and short in turns": (long_and_short, (66, 18)),
    "the last far": (last_far, (19,)),
    "documents beside turns": (beside_turns, (13,)),
    "a short one behind": (short_behind, (17,)),
    "across a long window": (across_a_window, (19,)),
    "chunks beyond a long window": (chunks_beyond_a_window, (5,)),
    "prompts behind decodes, in chunks": (partial(prompts_behind_decodes, 1, 2), (130,)),
    "a prompt behind drafts, in chunks": (partial(prompts_behind_decodes, 3, 1), (67,)),
    "deep in slots": (deep_in_slots, (5,)),
    "deep in groups": (deep_in_groups, (35,)),
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
