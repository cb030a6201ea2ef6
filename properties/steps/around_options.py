"""Steps whose requests lie in every way about one value of an option: a window, a chunk, a ring, a selection.

A kernel that is specialised for a value may be wrong for requests that end at it, cross it or pass it twice.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.circumstances import without_first_pages
from cumae.properties.steps.crowds import Lens, uneven_decodes
from cumae.properties.steps.ladder import Ladder

FAR, DEEP = 70_003, 16_390
"""Cached tokens of a far request, and of a deep chunk."""
MANY = 33
"""Requests of a step that has all of them; one of fewer leaves out the far ones and longer chunks."""
LONG, CROSSING, SHORT = 300, 130, 40
"""New tokens of a chunk alone, and of one of many requests that crosses the value, at most."""
DRAFTED, ROUNDS = 5, 8
"""New tokens of a decode that verifies drafts, and chunks or rings of which a long prompt has more."""
PADDING = (67, 19)
"""Padded tokens and requests."""
SMALL, USUAL, LARGE = 1, 16, 64
"""Tokens of a page, in turns."""


def about(option: Mapping[str, Any], value: int, pages: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests or more about a value of an option, beside padded ones.

    Decodes end before it, at it and behind it; drafts and chunks cross it; one request is idle.
    """
    chosen = _chosen(option, pages, ladder)
    if chosen is None:
        return None
    new = min(value, CROSSING if count >= MANY else SHORT)
    lens: list[Lens] = [("decode", cached, 1) for cached in _ends(value)]
    lens += [("decode", max(value - 3, 1), DRAFTED), ("decode", value + 5, 0), ("decode", 2 * value, DRAFTED)]
    lens += [("prefill", value - new // 2, new), ("prefill", value, new), ("prefill", 0, new)]
    if count >= MANY and pages != SMALL:
        lens += [("decode", FAR, 1), ("prefill", DEEP, new)]
    rest = max(count - len(lens), 0)
    lens[4:4] = [("decode", 1 + mixed(b) % (2 * value), 1) for b in range(rest)]
    more = {"min_window_columns": value + 9} if "window" in option and pages == SMALL else {}
    holes = count % 2 == 1 and pages == LARGE
    return chosen.preferring(max_drafts=DRAFTED - 1, **more).step(
        lens, seed=value + pages, padding=PADDING, block_size=pages, holes=holes
    )


def in_rounds(option: Mapping[str, Any], value: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` prefills that pass a value several times, between decodes, beside padding.

    Some are whole multiples of it, behind as many tokens or behind none; one has more than eight of them.
    """
    chosen = _chosen(option, 0, ladder)
    if chosen is None:
        return None
    lens = uneven_decodes(count, value - 9, spread=SHORT)
    lens[3:3] = [("prefill", value, 2 * value), ("prefill", 0, value), ("prefill", 5, 0)]
    lens += [("prefill", 0, ROUNDS * value + 9), ("prefill", value - 9, 20), ("prefill", DEEP, value + 9)]
    lens += [("prefill", 3 * value, value), ("prefill", 7, 2 * value + 1), ("decode", value - 2, DRAFTED)]
    return chosen.preferring(max_drafts=DRAFTED - 1).step(lens, seed=value, padding=PADDING)


def prompts(option: Mapping[str, Any], value: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` new prompts of a value and a few tokens more or fewer, or twice as many."""
    chosen = _chosen(option, 0, ladder)
    if chosen is None:
        return None
    lens: list[Lens] = [("prefill", 0, value * (1 + b % 2) + (0, 1, -1)[b % 3]) for b in range(count)]
    return chosen.step(lens, seed=value, padding=(0, 0))


def chunk(option: Mapping[str, Any], value: int, ladder: Ladder, new: int) -> Case | None:
    """Return a case of two chunks of ``new`` tokens or more alone, of which one crosses a value."""
    chosen = _chosen(option, 0, ladder)
    if chosen is None:
        return None
    lens: list[Lens] = [("prefill", max(value - new // 3, 1), new), ("prefill", 5, new // 4 + 1)]
    return chosen.step(lens, seed=value, padding=(0, 0))


def beyond(option: Mapping[str, Any], value: int, pages: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and a chunk that are all beyond a value.

    In large pages, those in front of a window are freed.
    """
    chosen = _chosen(option, pages, ladder)
    if chosen is None:
        return None
    lens = uneven_decodes(count, value + 1, spread=SHORT)
    lens.append(("prefill", value + 3, SHORT))
    case = chosen.step(lens, seed=value + count, padding=(0, 0), block_size=pages)
    if case is None or "window" not in option or pages != LARGE:
        return case
    return without_first_pages(chosen, case) or case


def _chosen(option: Mapping[str, Any], pages: int, ladder: Ladder) -> Ladder | None:
    """Return the ladder of cases with an option, in pages of one size if it is not 0."""
    needed = {name: value for name, value in option.items() if value is not False}
    chosen = ladder.under(**needed)
    if chosen is None or (pages and pages not in chosen.sizes):
        return None
    chosen = (chosen if "window" in option else chosen.unlimited).preferring(**option)
    return chosen.preferring(kernel_block_size=pages) if pages else chosen


def _ends(value: int) -> list[int]:
    """Return cached tokens of decodes that end about a value, or twice as far."""
    return [max(value + more, 1) for more in (-2, -1, 0, 1, value - 2, value - 1, value)]


WINDOWS = (4_096, 64, 2_048, 192, 1_024, 127, 512, 129, 128, 768)
TOPKS, RINGS, CHUNKS = (64, 512, 1_024, 2_048, 4_096), (512, 32, 256, 64, 1_024, 192), (512, 128, 256, 64)
FEW = (9, 5)
Option = tuple[str, dict[str, Any], int]
Steps = Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]]
_WINDOWS: Sequence[Option] = [(f"windows of {value}", {"window": value}, value) for value in WINDOWS]
_TOPKS: Sequence[Option] = [(f"selections of {value}", {"topk": value}, value) for value in TOPKS]
_RINGS: Sequence[Option] = [(f"rings of {value}", {"ring_capacity": value}, value) for value in RINGS]
_CHUNKS: Sequence[Option] = [
    (f"chunks of {size}{' positions' * absolute}", {"chunk_size": size, "absolute_chunks": absolute}, size)
    for size in CHUNKS
    for absolute in (False, True)
]


def _about(options: Sequence[Option]) -> Steps:
    """Return steps about each value in pages of each size."""
    return {
        f"about {name}, in pages of {pages}": (partial(about, option, value, pages), (MANY, 9))
        for pages in (LARGE, SMALL, USUAL)
        for name, option, value in options
    }


def _beyond(options: Sequence[Option]) -> Steps:
    """Return steps of requests that are all beyond each value, in pages of each size."""
    return {
        f"beyond {name}, in pages of {pages}": (partial(beyond, option, value, pages), (MANY + 3, 9))
        for pages in (LARGE, SMALL)
        for name, option, value in options
    }


AROUND_WINDOWS: Steps = _about(_WINDOWS)
AROUND_SELECTIONS: Steps = {
    **{f"a chunk, {name}": (partial(chunk, option, value), (LONG, 130)) for name, option, value in _TOPKS},
    **_about(_TOPKS),
}
BEYOND_WINDOWS, BEYOND_SELECTIONS = _beyond(_WINDOWS), _beyond(_TOPKS)
IN_ROUNDS: Steps = {
    **{
        f"in rounds, {name}": (partial(in_rounds, option, value), FEW)
        for name, option, value in (*_RINGS, *_CHUNKS)
    },
    **{
        f"prompts, {name}": (partial(prompts, option, value), FEW)
        for name, option, value in (*_RINGS, *_CHUNKS)
    },
    **{
        f"about {name}": (partial(about, option, value, 0), (MANY, 9))
        for name, option, value in (*_RINGS, *_CHUNKS)
    },
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
