"""Steps under several circumstances at once: any two of them meet, and each meets each mixture of requests.

A fast path is often wrong where two circumstances come together: deep contexts in a padded graph, freed pages
in a large pool, a window on ranks. The steps are the rows of an orthogonal array of strength two.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, auto
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.circumstances import in_large_ids, in_rows_of_a_pool, without_first_pages
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.mixtures import MIXTURES, lens_of
from cumae.properties.steps.served import sharing
from cumae.properties.steps.sized import TooLargeError

LEVELS = 11
"""The values of each aspect, and the aspects whose pairs of values all occur in as many rows squared."""


class Of(IntEnum):
    """The aspects of a step, each a column of the array."""

    MIXTURE = 0
    CACHED = auto()
    PADDING = auto()
    PAGE = auto()
    RANKS = auto()
    CHANGE = auto()
    OPTION = auto()
    IDLE = auto()
    COUNT = auto()
    CACHE = auto()


SHORT, USUAL, SPREAD, EQUAL, DEEP, FAR = 40, 65, 300, 640, 4_100, 40_003
"""Cached tokens: less than the first, from the second on, how many more, of all, and of deep and far ones."""
PAGES, LARGE, LARGEST_END = 4, 32, 128
"""Pages of requests that begin or end at one; tokens of a page of which they have fewer, and of the largest
pages that prompts fill."""
GRAPH, BESIDE = 64, 33
"""A captured graph has a multiple of so many requests; padded requests without tokens."""
IDLE_EVERY = 5
WIDE_TABLE = (67, 1_100)
"""Rows and columns of a table beyond those that the requests need."""
MOST_CACHED = 200_000
"""Cached tokens of a step; one of more is not built."""
KINDS: Sequence[Callable[[int, int], str]] = (
    *MIXTURES.values(),
    lambda count, b: "prompt",
    lambda count, b: "draft" if b % 3 else "chunk",
)
"""The kind of a request, by the number of requests and its own: mixtures, prompts, drafts among chunks."""


def _short(b: int, count: int) -> int:
    return 1 + mixed(b) % SHORT


def _usual(b: int, count: int) -> int:
    return USUAL + mixed(b) % SPREAD


def _equal(b: int, count: int) -> int:
    return EQUAL


def _deep(b: int, count: int) -> int:
    return DEEP + mixed(b) % SPREAD


def _one_far(b: int, count: int) -> int:
    return FAR if b == count - 2 else _usual(b, count)


CACHED: Sequence[tuple[Callable[[int, int], int], str]] = (
    (_usual, ""),
    (_deep, ""),
    (_usual, "begin"),
    (_one_far, ""),
    (_equal, ""),
    (_usual, "end"),
    (_deep, ""),
    (_short, ""),
    (_usual, ""),
    (_deep, "begin"),
    (_one_far, ""),
)
"""Cached tokens, and whether requests begin or end at pages."""
PADDINGS = (
    "none",
    "graph",
    "tokens",
    "none",
    "requests",
    "graph",
    "none",
    "tokens",
    "requests",
    "none",
    "graph",
)
PAGE_SIZES = (16, 64, 1, 128, 32, 256, 16, 512, 64, 24, 1)
RANKS: Sequence[tuple[int, str] | None] = (
    None,
    (2, "turns"),
    None,
    (8, "pages"),
    None,
    (4, "turns"),
    None,
    (2, "pages"),
    (3, "turns"),
    None,
    (8, "halves"),
)
"""Ranks, and whether each takes a position, a page or half a page in turns; None for one rank."""
CHANGES = ("", "freed", "ids", "", "pool", "freed", "", "ids", "wide", "shared", "freed ids")
OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"window": 128},
    {},
    {"kernel_block_size": 16},
    {"window": 1_024},
    {},
    {"key_scope": "prefill"},
    {"compress_ratio": 4},
    {"window": 4_096, "token_padding": 0},
    {"dummy_request": True},
    {},
)
MORE: Sequence[Mapping[str, Any]] = (
    {"topk": 64, "chunk_size": 64, "ring_capacity": 128},
    {"topk": 2_048, "chunk_size": 512, "absolute_chunks": False, "ring_capacity": 512},
    {"topk": 512, "chunk_size": 256, "absolute_chunks": True, "ring_capacity": 64},
    {"page_slack": -3, "key_slack": -5, "topk": 64, "chunk_size": 128, "ring_capacity": 256},
)
"""Options that few operations have, in turns."""
WORKERS = (132, 78, 148, 160, 108)
IDLE = ("", "", "among", "", "", "last", "", "", "among", "", "")
COUNTS = tuple((*many, 37, 9) for many in ((), (), (133,), (), (35,), (64,), (), (261,), (21,), (12,), ()))
"""Requests; the fewer where more are too much."""
ROWS = ("fp8", "fp16", "bf16", "fp32")
HEADS: Sequence[tuple[str, str]] = (
    ("NHD", "bf16"),
    ("HND", "fp8"),
    ("joined", "fp16"),
    ("packed", "bf16"),
    ("shuffled", "fp8"),
    ("NHD", "fp32"),
    ("HND", "bytes"),
    ("joined", "int8_own"),
    ("packed", "fp8"),
    ("shuffled", "bf16"),
    ("NHD", "fp8_own"),
)
"""Orders and formats of pages."""
WIDE, NARROW, WIDE_EVERY = (64, 64), (16, 16), 3
"""Widths of keys and values; every third step has the first, or latent rows as wide as those of models."""


def level(turn: int, of: int, levels: int = LEVELS) -> int:
    """Return the value of an aspect in one step, by its number; two aspects have each pair once.

    Aspects ``of`` 0 to ``levels``, a prime, are the columns of an orthogonal array.
    """
    turns, row = divmod(turn, levels)
    return turns if of == levels else (row + of * turns) % levels


def crossed(turn: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` requests whose aspects are those of one row of the array."""
    chosen = _with_options(turn, ladder)
    size = chosen.nearest_block(PAGE_SIZES[level(turn, Of.PAGE)])
    chosen = _on_ranks(turn, chosen, size)
    if size not in chosen.sizes:
        return None
    kind_of = KINDS[level(turn, Of.MIXTURE)]
    cached_of, at = CACHED[level(turn, Of.CACHED)]
    # Rows and pages of so many cached tokens would take the work of all other steps.
    if cached_of is _deep and not {"row_format", "head_format"}.isdisjoint(ladder.named):
        cached_of = _usual
    whole = size * chosen.domain.settled("world")
    lens = [_at_pages(at, b, lens_of(kind_of(count, b), b, cached_of(b, count)), whole) for b in range(count)]
    if sum(cached for _, cached, _ in lens) > MOST_CACHED:
        raise TooLargeError
    drafted = max((new for phase, _, new in lens if phase == "decode"), default=1)
    lens = _with_idle_ones(turn, lens)
    change = CHANGES[level(turn, Of.CHANGE)]
    case = chosen.preferring(max_drafts=drafted - 1).step(
        lens,
        seed=turn + 1,
        block_size=size,
        padding=_padding(turn, lens),
        room=WIDE_TABLE if change == "wide" else None,
    )
    return None if case is None else _changed(change, chosen, case)


def _with_options(turn: int, ladder: Ladder) -> Ladder:
    """Return the ladder of cases with the options of one step, of those that some case varies."""
    option = OPTIONS[level(turn, Of.OPTION)]
    if "window" not in option:
        ladder = ladder.unlimited
    workers = WORKERS[turn % len(WORKERS)]
    found = ladder.preferring(**option, **MORE[turn % len(MORE)], split_size=256, num_workers=workers)
    if "row_format" in found.named and turn % WIDE_EVERY == 0:
        return found.in_rows_of(ROWS[level(turn, Of.CACHE) % len(ROWS)]) or found
    if "head_format" in found.named:
        order, head_format = HEADS[level(turn, Of.CACHE)]
        dims = WIDE if turn % WIDE_EVERY == 0 else NARROW
        return found.under(page_order=order, head_format=head_format, num_heads=2, head_dims=dims) or found
    return found


def _on_ranks(turn: int, ladder: Ladder, size: int) -> Ladder:
    """Return the ladder of cases on the ranks of one step, seen by the last, the first, or one between."""
    ranks = RANKS[level(turn, Of.RANKS)]
    if ranks is None:
        return ladder.preferring(kernel_block_size=size) if _is_whole(turn) else ladder
    world, run = ranks
    interleave = {"turns": 1, "pages": size, "halves": max(size // 2, 1)}[run]
    having = ladder.under(world=world, interleave=interleave)
    if having is None:
        return ladder
    rank = (world - 1, 0, world // 2)[turn // LEVELS % 3]
    return having.preferring(rank=rank, **({"kernel_block_size": size} if _is_whole(turn) else {}))


def _is_whole(turn: int) -> bool:
    return "kernel_block_size" not in OPTIONS[level(turn, Of.OPTION)]


def _at_pages(at: str, b: int, lens: Lens, whole: int) -> Lens:
    """Return the lengths of a request, which begins or ends at a page if it is to."""
    phase, cached, new = lens
    if not at:
        return lens
    if not cached:
        return phase, 0, -(-new // whole) * whole if at == "end" and whole <= LARGEST_END else new
    begin = max(cached // whole, 1 + b % (2 if whole > LARGE else PAGES)) * whole
    return phase, begin if at == "begin" else -(-(begin + new) // whole) * whole - new, new


def _with_idle_ones(turn: int, lens: list[Lens]) -> list[Lens]:
    """Return the requests, of which some among the others have no new token, or the last ones have none."""
    idle = IDLE[level(turn, Of.IDLE)]
    found: list[Lens] = []
    for b, (phase, cached, new) in enumerate(lens):
        is_idle = {"": False, "among": b % IDLE_EVERY == 2, "last": b >= len(lens) - 2}[idle]
        found.append((phase, cached, 0 if is_idle else new))
    return found


def _padding(turn: int, lens: Sequence[Lens]) -> tuple[int, int]:
    """Return padded tokens and requests: as a graph has them, to a power of two, beside, or none."""
    tokens, most = sum(new for _, _, new in lens), max(new for _, _, new in lens)
    padded = -len(lens) % GRAPH
    kind = PADDINGS[level(turn, Of.PADDING)]
    if kind == "graph":
        return (padded * most if most < SHORT else padded), padded
    return {"none": (0, 0), "requests": (0, BESIDE)}.get(kind, (2 ** (tokens + 64).bit_length() - tokens, 0))


def _changed(change: str, ladder: Ladder, case: Case) -> Case:
    """Return the case in other pages or rows, unchanged where the domain has no such case."""
    if change == "shared":
        shared = sharing(case, lambda b: 2, lambda b: b % 2)
        ids = [block_id for request in shared.batch.requests for block_id in request.block_ids]
        return shared if max(ids, default=0) <= ladder.domain.max_block_id else case
    if "freed" in change:
        case = without_first_pages(ladder, case) or case
    if "ids" in change:
        case = in_large_ids(ladder, case) or case
    return (in_rows_of_a_pool(ladder, case) or case) if change == "pool" else case


CROSSED: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = {
    f"crossed {turn}": (partial(crossed, turn), COUNTS[level(turn, Of.COUNT)]) for turn in range(LEVELS**2)
}
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
