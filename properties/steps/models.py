"""Models as engines serve them: their options, page sizes, ranks, and how long contexts are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, auto
from typing import Any, TypeVar

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.draws import edited, having_blocks
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

T = TypeVar("T")
NEAR = 1_024
"""Contexts lie on both sides of a model's window or selection, or of this."""
WINDOW = 128
"""Keys that a token of a windowed model sees; pages in front of them are freed."""
CAPTURED = (8, 64, 256)
"""In turns, a captured graph has a multiple of so many requests."""
ROOM = (None, (131, 67), None, (131, 67), None, (3, 1_100))
"""Rows and columns of tables beyond the needed ones, in turns: engines size it for their longest request."""
TILE, EXCHANGED = 16, (4, 9)
"""Rows and pages that are nearly in order: in each tile of them, two places are exchanged."""
FP8 = {"page_order": "HND", "head_format": "fp8", "num_heads": 8}
"""Options of pages of quantised heads."""
ROWS_OF_TOKENS = {"page_order": "NHD", "head_dims": (128, 128)}
WIDE_HEADS = {"num_heads": 8, "head_dims": (64, 64)}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "small pages": {"block_size": (16, 1, 32)},
    "large pages": {"block_size": (64, 128, 656, 256)},
    "selections": {"block_size": (64, 1), "topk": 2_048, "split_size": 256, "num_workers": 132},
    "windows": {"block_size": (16, 128, 1), "window": WINDOW},
    "wide windows": {"block_size": (64, 32), "window": 1_024},
    "long windows": {"block_size": 64, "window": 4_096},
    "hybrid": {"block_size": 256, "kernel_block_size": 64, "chunk_size": 256, "absolute_chunks": True},
    "chunks": {"block_size": 16, "chunk_size": 64, "absolute_chunks": False, "ring_capacity": 128},
    "chunks of rows": {"block_size": 64, "chunk_size": 256, "absolute_chunks": False},
    "prefix keys": {"block_size": 64, "key_scope": "prefill"},
    "groups of keys": {"block_size": 256, "compress_ratio": 4},
    "compressed keys": {"block_size": 256, "compress_ratio": 128},
    "eight ranks": {"block_size": 64, "world": 8, "interleave": 64, "topk": 2_048},
    "four ranks": {"block_size": (16, 128), "world": 4, "interleave": 4, "topk": 1_024},
    "six ranks": {"block_size": 16, "world": 6, "interleave": 16},
    "two ranks": {"block_size": (16, 64), "world": 2, "interleave": 1, "topk": 512},
    "sixteen ranks": {"block_size": 16, "world": 16, "interleave": 1},
    "compressed on ranks": {"block_size": 256, "world": 2, "interleave": 128, "compress_ratio": 128},
    "fp8 heads": {"block_size": (64, 128), **FP8},
    "fp8 windows": {"block_size": 64, "window": WINDOW, **FP8},
    "fp8 on ranks": {"block_size": 64, "world": 2, "interleave": 1, **FP8},
    "windows of groups": {"block_size": 256, "window": WINDOW, "compress_ratio": 4},
    "windows on ranks": {"block_size": 64, "window": WINDOW, "world": 2, "interleave": 1},
    "long windows on ranks": {"block_size": (16, 64), "window": 4_096, "world": 6, "interleave": 1},
    "hybrid windows": {"block_size": 256, "kernel_block_size": 64, "window": 1_024},
    "hybrid on ranks": {"block_size": 256, "kernel_block_size": 64, "world": 4, "interleave": 4},
    "prefix keys on ranks": {"block_size": 64, "key_scope": "prefill", "world": 8, "interleave": 64},
}
"""By name: a block size, or several in turns, and options as models are served with them."""
MORE_MODELS: Mapping[str, Mapping[str, Any]] = {
    **MODELS,
    "half windows": {"block_size": (8, 32), "window": 512},
    "windows of 2,048": {"block_size": (64, 16), "window": 2_048},
    "bf16 heads": {"block_size": (16, 64), **FP8, "head_format": "bf16", "head_dims": (128, 128)},
    "int8 heads": {"block_size": (16, 64), **FP8, "head_format": "int8_own"},
    "four heads": {"block_size": (16, 64), "head_format": "bf16", "head_dims": (128, 128), "num_heads": 4},
    "bf16 windows": {"block_size": (16, 64), "window": WINDOW, "head_format": "bf16", **WIDE_HEADS},
    "sixteen heads": {"block_size": (16, 64), **FP8, "num_heads": 16, "head_dims": (64, 64)},
    "hybrid heads": {"block_size": (656, 1_056), "num_heads": 2, "head_dims": (256, 256)},
    "wide values": {"block_size": (16, 64), "head_dims": (64, 128), "num_heads": 2},
    "fp8 rows": {"block_size": (64, 16), "row_format": "fp8"},
    "two ranks in runs": {"block_size": (16, 64), "world": 2, "interleave": 16},
    "four ranks in turns": {"block_size": (16, 64), "world": 4, "interleave": 1},
    "eight ranks in turns": {"block_size": 64, "world": 8, "interleave": 1},
    "hybrid on eight ranks": {"block_size": 128, "kernel_block_size": 16, "world": 8, "interleave": 16},
    "wide windows on ranks": {"block_size": 64, "window": 1_024, "world": 8, "interleave": 64},
    "selections of 1,024": {"block_size": 64, "topk": 1_024, "split_size": 128, "num_workers": 78},
    "short rings": {"block_size": 16, "ring_capacity": 64},
    "long rings": {"block_size": 16, "ring_capacity": 256},
    "packed heads": {"block_size": (16, 64), **FP8, "page_order": "packed"},
    "shuffled heads": {"block_size": (16, 64), **FP8, "page_order": "shuffled"},
    "fp8 rows on ranks": {"block_size": 64, "row_format": "fp8", "world": 2, "interleave": 64},
    "bf16 rows": {"block_size": (64, 16), "row_format": "bf16"},
    "hybrid in parts": {"block_size": (656, 1_056), "kernel_block_size": 16},
    "fp8 rows of prefixes": {"block_size": 64, "row_format": "fp8", "key_scope": "prefill"},
    "fp8 in rows of tokens": {"block_size": (16, 64), **FP8, **ROWS_OF_TOKENS, "num_heads": 4},
    "fp8 in hybrid pages": {"block_size": (656, 1_056), **FP8, "num_heads": 2, "head_dims": (128, 128)},
    "fp8 wide windows": {"block_size": (16, 64), "window": 1_024, **FP8, "head_dims": (128, 128)},
    "ten heads": {"block_size": (16, 64), **FP8, "num_heads": 10, "head_dims": (128, 128)},
    "five heads": {"block_size": (16, 64), "head_format": "bf16", "num_heads": 5, "head_dims": (64, 64)},
    "heads of 256": {"block_size": (16, 64), "window": 1_024, "num_heads": 2, "head_dims": (256, 256)},
    "heads of 512": {"block_size": (16, 64), "head_format": "bf16", "num_heads": 1, "head_dims": (512, 512)},
    "windows of 768": {"block_size": (16, 64), "window": 768},
    "windows on ranks in runs": {"block_size": 16, "window": 1_040, "world": 2, "interleave": 16},
    "joined windows": {"block_size": (16, 64), "window": WINDOW, **FP8, "page_order": "joined"},
    "int8 windows": {"block_size": (64, 16), "window": WINDOW, **FP8, "head_format": "int8_own"},
    "windows of prefixes": {"block_size": 64, "window": 512, "key_scope": "prefill"},
    "groups on four ranks": {"block_size": 256, "world": 4, "interleave": 32, "compress_ratio": 4},
    "selections on two ranks": {"block_size": 64, "world": 2, "interleave": 1, "topk": 2_048},
    "chunks of 128": {"block_size": 64, "chunk_size": 128, "absolute_chunks": True, "ring_capacity": 192},
}
"""These, and some that differ from them in one option."""


class Of(IntEnum):
    """Choices that differ between the turns of a model; from `COUNT` on, only in steps composed of aspects.

    Turn and number together choose the value: a new number leaves the other choices as they are.
    """

    PAGE_SIZE = 0
    CAPTURED = auto()
    RANK = auto()
    ROOM = auto()
    PAGE_ORDER = auto()
    VARIANT = auto()
    COUNT = 10
    PLACE = auto()
    MIX = auto()
    TOKENS = auto()
    IDLE = auto()
    ORDER = auto()
    BUDGET = auto()
    DUMMY = auto()
    SHARING = auto()
    BEHIND = auto()
    CONTEXT = auto()
    LENGTH = auto()
    NEW = auto()
    PADDING = auto()
    ALL_DRAFTS = auto()
    SPREAD = auto()
    IDLE_EVERY = auto()
    FILL = auto()
    FAMILY = auto()


@dataclass(frozen=True, slots=True)
class Served:
    """A model as an operation sees it: its ladder, block sizes, ranks, and where its contexts end.

    ``turn``: the number of the step that is built for it. Page sizes, ranks, captured sizes, room in tables
    and the order of rows and pages differ between the turns.
    """

    ladder: Ladder
    block_sizes: tuple[int, ...]
    world: int
    near: int
    turn: int = 0

    @property
    def block_size(self) -> int:
        """The block size of this turn, or a usual one where the domain has it not."""
        size = self.pick(Of.PAGE_SIZE, self.block_sizes)
        return size if size in self.ladder.sizes else self.ladder.usual_block

    @property
    def captured(self) -> int:
        """The number of requests of which captured graphs have a multiple."""
        return self.pick(Of.CAPTURED, CAPTURED)

    def pick(self, what: Of, values: Sequence[T]) -> T:
        """Return the value that ``what`` has in this turn."""
        return values[mixed(self.turn, what) % len(values)]

    def context(self, number: int) -> int:
        """Return the context of a request: about the model's limit, of many pages, short, or between."""
        bits = mixed(number)
        more = bits >> 8
        return (self.near - 3 + more % 6, 1_088 + more % 2_000, 1 + more % 40, 64 + more % 700)[bits % 4]

    def having(self, option: str, value: Any) -> "Served":
        """Return the model with one value of an option, unchanged if no case varies the option."""
        ladder = self.ladder.having(option, value)
        return self if ladder is None else replace(self, ladder=ladder)

    def step(self, lens: list[Lens], seed: int, padding: tuple[int, int] | None = None) -> Case | None:
        """Return a case of these requests, seen by one of the ranks."""
        rank = self.pick(Of.RANK, (self.world - 1, 0, self.world // 2))
        ladder = (self.ladder.having("rank", rank) if self.world > 1 else None) or self.ladder
        ladder = ladder.having("kernel_block_size", self.block_size) or ladder
        room = self.pick(Of.ROOM, ROOM)
        case = ladder.step(lens, seed=seed, block_size=self.block_size, padding=padding, room=room)
        ordered = self.pick(Of.PAGE_ORDER, (None, _but_two, None, _falling, _in_turns))
        return case if case is None or ordered is None else _in_order(case, ordered)


def served(ladder: Ladder, models: Mapping[str, Mapping[str, Any]] = MODELS) -> Iterator[tuple[str, Served]]:
    """Yield the models that differ for a ladder's operation, by name."""
    seen: set[frozenset[tuple[str, Any]]] = set()
    for name, options in models.items():
        model, taken = ladder, {}
        for option, value in options.items():
            if option == "block_size":
                continue
            having = model.in_rows_of(value) if option == "row_format" else model.having(option, value)
            if having is not None:
                model, taken[option] = having, value
        if (len(options) > 1 and not taken) or (taken and frozenset(taken.items()) in seen):
            continue
        seen.add(frozenset(taken.items()))
        if "window" not in taken:
            model = model.unlimited
        near = taken.get("window") or taken.get("topk") or NEAR
        sizes = options["block_size"]
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        yield name, Served(model, sizes, taken.get("world", 1), near)


def _in_order(case: Case, ordered: Callable[[list[int], Sequence[int]], list[int]]) -> Case:
    """Return the case with rows in nearly rising order, and as many pages as before in another order.

    ``ordered``: takes page ids that rise, and the number of pages of each request.
    """
    rows = case.layout.row_index
    if rows is not None and min(rows, default=-1) >= 0:
        # Where pages are nearly in order, rows have gaps; else they are the first ones.
        rows = tuple(_but_two(sorted(rows) if ordered is _but_two else list(range(len(rows))), ()))
    given = [i for request in case.batch.requests for i in request.block_ids if i >= 0]
    if len({*given}) < len(given):  # some are shared
        return edited(case, list(case.batch.requests), rows)
    first = min(given, default=0)
    counts = [sum(i >= 0 for i in request.block_ids) for request in case.batch.requests]
    ids = iter(ordered(list(range(first, first + len(given))), counts))
    requests = [
        having_blocks(request, [next(ids) if i >= 0 else i for i in request.block_ids])
        for request in case.batch.requests
    ]
    return edited(case, requests, rows)


def _but_two(values: list[int], _: Sequence[int]) -> list[int]:
    """Return the values with two of each tile exchanged."""
    one, other = EXCHANGED
    for start in range(0, len(values) - other, TILE):
        i, j = start + one, start + other
        values[i], values[j] = values[j], values[i]
    return values


def _falling(values: list[int], _: Sequence[int]) -> list[int]:
    """Return the values in falling order, as a list of free pages that was filled last gives them."""
    return values[::-1]


def _in_turns(values: list[int], counts: Sequence[int]) -> list[int]:
    """Return the values as requests get them that take a page each in turns."""
    places = [(k, b) for b, count in enumerate(counts) for k in range(count)]
    taken = dict(zip(sorted(places), values, strict=True))
    return [taken[place] for place in places]
