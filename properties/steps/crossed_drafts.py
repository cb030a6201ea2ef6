"""Steps that verify drafts of every usual number, and other rare ones, under any two circumstances at once.

Any two of their aspects meet, as in `crossed`: drafts of seven in a padded graph, requests that end at pages
on ranks, idle ones first in a window. The steps are the rows of orthogonal arrays of strength two.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, auto
from functools import partial
from typing import Any

from cumae.oracle import Case, Request
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import mixed
from cumae.properties.steps import crossed
from cumae.properties.steps.circumstances import in_large_ids, in_rows_of_a_pool, without_first_pages
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.sized import TooLargeError

LEVELS = 7
"""The values of each aspect; one aspect more than so many has each pair of values in as many rows squared."""


class Of(IntEnum):
    """The aspects of a step, each a column of the array."""

    KIND = 0
    CACHED = auto()
    PADDING = auto()
    PAGE = auto()
    RANKS = auto()
    CHANGE = auto()
    OPTION = auto()
    IDLE = auto()


NewOf = Callable[[int, int], tuple[str, int]]
"""The phase and the new tokens of a request, by its number and the number of requests."""
DRAFTS = (2, 4, 7, 5, 8, 16, 64)
"""Drafts that each request of a step verifies; a decode has one token more."""
LONG, PROMPT, SPREAD, ACCEPTED = 1_030, 40, 300, 17
"""New tokens: of a long chunk, the least of a prompt, by how many they differ, the most of any drafts."""
USUAL, EQUAL, DEEP, FAR = 70, 655, 4_100, 40_003
"""Cached tokens: the least of usual ones, those of all, the least of deep ones, those of one far request."""
PAGES = 3
"""Pages that requests have filled, at most."""
PADDED, GRAPH = 67, 64
"""Padded tokens, requests or slots; a captured graph has a multiple of so many requests."""
MOST_CACHED, MOST_COLUMNS = 120_000, 2_000
"""Cached tokens of a step, one of more is not built; pages of a request in a table for many more requests."""


def _drafts(each: int, b: int, count: int) -> tuple[str, int]:
    return "decode", each + 1


def _accepted(b: int, count: int) -> tuple[str, int]:
    return "decode", 1 + mixed(b, 1) % ACCEPTED


def _before_a_long_chunk(b: int, count: int) -> tuple[str, int]:
    return ("prefill", LONG) if b == count - 1 else ("decode", 1)


def _after_prompts(b: int, count: int) -> tuple[str, int]:
    return ("decode", 1) if b >= count // 2 else ("prefill", PROMPT + mixed(b, 2) % PROMPT)


def _chunks(b: int, count: int) -> tuple[str, int]:
    return "prefill", PROMPT + mixed(b, 2) % SPREAD


def _decodes(b: int, count: int) -> tuple[str, int]:
    return "decode", 1


def _idle(b: int, count: int) -> tuple[str, int]:
    return "prefill", 0


def _pairs_among_chunks(b: int, count: int) -> tuple[str, int]:
    return ("decode", 3) if b % 3 else ("prefill", PROMPT)


UNIFORM: Sequence[NewOf] = tuple(partial(_drafts, each) for each in DRAFTS)
KINDS: Sequence[Sequence[NewOf]] = (
    UNIFORM,
    (_accepted, _before_a_long_chunk, _decodes, _after_prompts, _chunks, _idle, _pairs_among_chunks),
)
"""The kinds of requests of two arrays."""
CACHED = ("full", "usual", "far", "begun", "deep", "equal", "crossing")
"""Where requests end or begin: all at the end of pages, behind many or equally many tokens, across pages."""
AT_PAGES, TRIES = ("full", "begun", "crossing"), 9
"""Those that keep their distance from pages, and how many places a request is tried at."""
PADDINGS = ("graph", "none", "slots", "requests", "none", "graph", "tokens")
PAGE_SIZES = (128, 64, 16, 656, 256, 1, 32)
RANKS: Sequence[tuple[int, int, str] | None] = (
    None,
    (4, 1, "turns"),
    None,
    (2, 0, "pages"),
    (6, 3, "turns"),
    None,
    (8, 5, "halves"),
)
"""Ranks, the one that sees the step, and what each takes in turns; None for one rank."""
CHANGES = ("", "pool", "ids", "", "holes", "ids pool", "freed")
OPTIONS: Sequence[Mapping[str, Any]] = (
    {"topk": 1_024},
    {"window": 64, "page_slack": -2, "key_slack": -5, "topk": 64},
    {"token_padding": 0, "compress_ratio": 8, "topk": 512, "host_lens": False},
    {"window": 129, "token_padding": 0, "topk": 2_048},
    {"kernel_block_size": 16, "topk": 512, "key_scope": "prefill"},
    {"window": 512, "topk": 1_024, "host_lens": False},
    {"page_slack": -2, "key_slack": -5, "topk": 64, "dummy_request": True},
)
FEWER_SELECTED, MOST_SELECTED = (512, 64), 2**16
"""Selected keys of a token where the step would have more than so many otherwise."""
MORE: Sequence[Mapping[str, Any]] = (
    {"chunk_size": 256, "ring_capacity": 64, "num_workers": 78, "page_order": "HND", "head_format": "bf16"},
    {"chunk_size": 64, "ring_capacity": 512, "num_workers": 132, "page_order": "NHD", "head_format": "fp8"},
    {"chunk_size": 128, "ring_capacity": 128, "num_workers": 16, "page_order": "joined"},
)
"""Options that few operations have, in turns."""
IDLE = ("first", "", "last", "", "among", "first", "")
COUNTS = ((19, 9), (37, 9), (9,))
"""Requests, in turns; the fewer where more are too much."""
level = partial(crossed.level, levels=LEVELS)


def crossed_drafts(kinds: Sequence[NewOf], turn: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests whose aspects are those of one row of the array."""
    chosen = _with_options(turn, ladder)
    size = chosen.nearest_block(PAGE_SIZES[level(turn, Of.PAGE)])
    chosen = _on_ranks(turn, chosen, size)
    if size not in chosen.sizes:
        return None
    whole = size * chosen.domain.settled("world")
    lens = [_lens_of(kinds[level(turn, Of.KIND)](b, count), turn, b, count, whole) for b in range(count)]
    if sum(cached + new for _, cached, new in lens) > MOST_CACHED:
        raise TooLargeError
    drafted = max((new for phase, _, new in lens if phase == "decode"), default=1)
    if "max_drafts" in ladder.named and kinds[level(turn, Of.KIND)] in UNIFORM:
        at_pages = CACHED[level(turn, Of.CACHED)] in AT_PAGES
        lens = [_with_all_drafts(one, whole if at_pages else 1) for one in lens]
    chosen = _selecting(turn, chosen, sum(new for _, _, new in lens))
    chosen = chosen.having("max_drafts", drafted - 1) or chosen
    layout = _padding(turn, lens) if chosen.domain.padding != "none" else {}
    if "num_padding_slots" not in chosen.features:
        layout.pop("num_padding_slots", None)
    change = CHANGES[level(turn, Of.CHANGE)]
    case = chosen.case(lens, seed=turn + 1, block_size=size, holes=change == "holes", **layout)
    return None if case is None else _changed(change, chosen, case)


def _with_options(turn: int, ladder: Ladder) -> Ladder:
    """Return the ladder of cases with the options of one step, of those that some case varies."""
    option = OPTIONS[level(turn, Of.OPTION)]
    if "window" not in option:
        ladder = ladder.unlimited
    return ladder.preferring(**option, **MORE[turn % len(MORE)], split_size=64)


def _selecting(turn: int, ladder: Ladder, tokens: int) -> Ladder:
    """Return the ladder of cases whose tokens select as many keys as in the row, or fewer of a large step."""
    topk: int = OPTIONS[level(turn, Of.OPTION)]["topk"]
    fitting = (value for value in (topk, *FEWER_SELECTED) if value * tokens <= MOST_SELECTED)
    return ladder.preferring(topk=next(fitting, FEWER_SELECTED[-1]))


def _on_ranks(turn: int, ladder: Ladder, size: int) -> Ladder:
    """Return the ladder of cases on the ranks of one step, in whole pages unless it has kernel blocks."""
    whole = {} if "kernel_block_size" in OPTIONS[level(turn, Of.OPTION)] else {"kernel_block_size": size}
    ranks = RANKS[level(turn, Of.RANKS)]
    if ranks is None:
        return ladder.preferring(**whole)
    world, rank, run = ranks
    interleave = {"turns": 1, "pages": size, "halves": max(size // 2, 1)}[run]
    having = ladder.under(world=world)
    return ladder if having is None else having.preferring(interleave=interleave, rank=rank, **whole)


def _lens_of(new_of: tuple[str, int], turn: int, b: int, count: int, whole: int) -> Lens:
    """Return the lengths of a request, whose pages hold ``whole`` tokens."""
    kind, new = new_of
    phase: Any = kind
    idle = IDLE[level(turn, Of.IDLE)]
    if {"": False, "first": b < 2, "last": b >= count - 2, "among": b % 4 == 2}[idle]:
        new = 0
    filled = (1 + b % (PAGES if whole <= GRAPH else 1)) * whole
    cached = {
        "full": -(-(filled + new) // whole) * whole - new,
        "usual": USUAL + mixed(b) % SPREAD,
        "far": FAR if b == count - 4 else USUAL + mixed(b) % SPREAD,
        "begun": filled,
        "deep": DEEP + mixed(b) % SPREAD,
        "equal": EQUAL,
        "crossing": max(filled - max(new // 2, 1), 1),
    }[CACHED[level(turn, Of.CACHED)]]
    return phase, cached, new


def _with_all_drafts(lens: Lens, by: int) -> Lens:
    """Return a request that verifies all but one of its new tokens, behind a few times ``by`` tokens more."""
    phase, cached, new = lens
    for more in range(TRIES):
        if num_drafts_of(Request(cached + more * by, new), new - 1) == new - 1:
            return phase, cached + more * by, new
    return lens


def _padding(turn: int, lens: Sequence[Lens]) -> dict[str, Any]:
    """Return padded tokens, requests and slots: as a graph has them, each of them alone, or none."""
    most, padded = max(new for _, _, new in lens), -len(lens) % GRAPH
    kind = PADDINGS[level(turn, Of.PADDING)]
    tokens = {"graph": padded * min(most, PROMPT), "tokens": PADDED, "slots": 5}.get(kind, 0)
    return {
        "num_padding_tokens": tokens,
        "num_padding_requests": {"graph": padded, "requests": PADDED}.get(kind, 0),
        "num_padding_slots": PADDED if kind in ("slots", "tokens") else 0,
    }


def _changed(change: str, ladder: Ladder, case: Case) -> Case:
    """Return the case in other pages or rows, unchanged where the domain has no such case."""
    if "freed" in change:
        case = without_first_pages(ladder, case) or case
    if "ids" in change:
        case = in_large_ids(ladder, case) or case
    is_wide = max((len(one.block_ids) for one in case.batch.requests), default=0) > MOST_COLUMNS
    return (in_rows_of_a_pool(ladder, case) or case) if "pool" in change and not is_wide else case


CROSSED_DRAFTS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    f"crossed {name} {turn}": (partial(crossed_drafts, kinds, turn), COUNTS[turn % len(COUNTS)])
    for turn in range(LEVELS**2)
    for name, kinds in zip(("drafts", "others"), KINDS, strict=True)
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
