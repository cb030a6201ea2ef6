"""Cases of chosen sizes: long requests, many requests, padding, large ids, both sides of given sizes.

No two parts of such a case are alike: lengths are mixed from the request's index, so a kernel that reads a
part twice is wrong on it.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import renamed
from cumae.properties.cases.features import feature_of
from cumae.properties.cases.head_values import HEAD_FEATURES
from cumae.properties.cases.page_formats import block_sizes
from cumae.properties.steps.crowds import Lens, busy, short, with_lulls
from cumae.properties.steps.narrowed import RouterShape, plain, with_option, with_router, with_rows
from cumae.properties.steps.sized import Admits, admits_all, sized_case

TILES = (32, 64, 128, 256, 512, 1024)
"""Sizes whose both sides every ladder visits in one case."""
_WORLD = frozenset({"world", "rank", "interleave"})
CROWDED, DECODES = 256, 9
"""New tokens of a case that has so many decodes too, as a busy engine's full budget."""
MOST_SPARE = 2**12
"""Free pages beyond those that a step takes."""


class Ladder:
    """Builds cases of chosen sizes in a domain; each method returns None if the domain has no such case.

    ``features``: those that may differ from their neutral value. Sizes that the domain does not promise are
    cut to the largest that it does. ``admits``: tells whether a case with so many requests, new tokens and
    keys is to be built; `TooLargeError` is raised if not. Ladders made from this one ask it too.
    """

    def __init__(self, domain: Domain, features: Collection[str], admits: Admits = admits_all) -> None:
        self._given, self.domain, self._admits = domain, plain(domain), admits
        self.named = frozenset(features)
        self.features = self.named - _WORLD
        self._made: dict[tuple[str, Any], Ladder | None] = {}

    def of(self, domain: Domain, features: Collection[str]) -> "Ladder":
        """Return the ladder of cases in another domain, or with other features that may differ."""
        return Ladder(domain, features, self._admits)

    def long(self, size: int) -> Case | None:
        """Return a case of requests with ``size`` new tokens, and with as many cached ones, without a window.

        A window would hide most of them from a function that reads or lists keys.
        """
        lens: list[Lens] = [("decode", 5, 1), ("prefill", 7, size), ("decode", size, 1), ("prefill", 3, 0)]
        lens += [("prefill", size // 2 + 1, 3), ("prefill", 0, 2)]
        return self.unlimited.case(lens, seed=size, block_size=self.usual_block)

    def deep(self, size: int) -> Case | None:
        """Return a case of one request with ``size`` cached tokens between short ones, without a window."""
        lens: list[Lens] = [("prefill", 2, 3), ("decode", size, 1), ("prefill", 4, 2)]
        return self.unlimited.case(lens, seed=size, block_size=self.usual_block)

    def wide(self, size: int) -> Case | None:
        """Return a case of a decode that needs ``size`` columns of the table."""
        block_size = min(self.sizes)
        lens: list[Lens] = [("prefill", 2, 3), ("decode", size * block_size - 1, 1), ("decode", 4, 1)]
        return self.unlimited.case(lens, seed=size, block_size=block_size)

    def fresh(self, size: int) -> Case | None:
        """Return a case of a prefill whose new tokens fill ``size`` pages of the smallest size."""
        block_size = min(self.sizes)
        lens: list[Lens] = [("prefill", 2, 3), ("prefill", block_size + 1, size * block_size)]
        return self.unlimited.case([*lens, ("decode", 4, 1)], seed=size + 1, block_size=block_size)

    def many(self, size: int) -> Case | None:
        """Return a case of ``size`` requests with few tokens, some of them empty."""
        return self.case(list(short(size)), seed=size, block_size=self.usual_block)

    def crowd(self, size: int) -> Case | None:
        """Return a case of ``size`` requests, most of which have no token, new or cached."""
        lens: list[Lens] = [("decode", 3, 1)]
        for b in range(1, size - 1):
            bits = mixed(b)
            lens.append(("prefill", int(bits % 5 == 0), int(bits >> 20 & 7 == 0)))
        return self.case([*lens, ("prefill", 2, 2)], seed=size, block_size=self.usual_block)

    def far(self, size: int) -> Case | None:
        """Return a case of requests with about ``size`` cached tokens and few new ones, some on each rank."""
        lens: list[Lens] = [("decode", size, 1), ("prefill", size // 2 + 3, 131), ("prefill", size - 9, 4)]
        return self.case(lens, seed=size + self.domain.settled("world"), block_size=self.usual_block)

    def busy(self, count: int) -> Case | None:
        """Return a case of ``count`` requests of several small blocks; some lack blocks, or a row."""
        return self.case(list(busy(count)), seed=count, block_size=self.nearest_block(4), holes=True)

    def lulls(self, length: int) -> Case | None:
        """Return a case in which twice ``length`` requests in a row have no new token."""
        if not self.domain.empty_requests:
            return None
        return self.case(list(with_lulls(length)), seed=length, block_size=self.nearest_block(4))

    def on_ranks(self, world: int) -> "Ladder | None":
        """Return the ladder of cases that lie on ``world`` ranks, seen by the last of them."""
        if (domain := self._having("world", world)) is None:
            return None
        found = self.of(domain, self.named)
        found.features |= {"interleave"} & self.named
        return found

    def in_runs(self, world: int) -> "Ladder | None":
        """Return the ladder of ``world`` ranks that take as many positions at a time as a block has."""
        ranks = self.having("world", world)
        return None if ranks is None else ranks.having("interleave", self.usual_block)

    def padded(self, size: int, num_requests: int) -> Case | None:
        """Return a case with ``size`` padded tokens and slots, and so many padded requests."""
        if self.domain.padding == "none":
            return None
        lens = [*short(4), ("prefill", 3, 5), ("prefill", 0, 2)]
        slots = size if "num_padding_slots" in self.features else 0
        padding: dict[str, Any] = {
            "num_padding_tokens": size,
            "num_padding_requests": num_requests,
            "num_padding_slots": slots,
        }
        if "row_format" not in self.named:  # a cache would hold a row for each slot of them
            padding["num_spare_blocks"] = min(size, self.domain.max_block_id // 2, MOST_SPARE)
        return self.case(lens, seed=size, block_size=self.usual_block, **padding)

    def edges(self, sizes: Iterable[int]) -> Case | None:
        """Return a case of requests whose new and cached tokens lie on both sides of each size."""
        lengths = [size + d for size in sizes for d in (0, -1, 1)]
        lens: list[Lens] = []
        for i, length in enumerate(lengths):
            context = lengths[(i + len(lengths) // 2) % len(lengths)]
            lens.append(("prefill", context, length))
            if i % 4 == 1:
                lens.append(("decode", length, 1))
        return self.case(lens, seed=len(lens), block_size=self.usual_block) if lens else None

    def tokens(self, count: int, padding: int) -> Case | None:
        """Return a case of exactly ``count`` new tokens, and so many padded ones.

        A few requests have most of them; of many tokens, decodes in front of these have some.
        """
        lens: list[Lens] = [("decode", 17 + 5 * b, 1) for b in range(DECODES if count >= CROWDED else 0)]
        left = count - len(lens)
        first, second = left // 3, left // 2 - left // 5
        rest = left - first - second
        lens += [("prefill", 3, first), ("prefill", 0, 0), ("prefill", 18, second)]
        if rest > 1:
            lens.append(("decode", 9, 1))
        lens.append(("prefill", 0, rest - (rest > 1)))
        padded: dict[str, Any] = {"num_padding_tokens": padding} if self.domain.padding != "none" else {}
        return self.case(lens, seed=count, block_size=self.usual_block, **padded)

    def requests(self, count: int, padding: int) -> Case | None:
        """Return a case of exactly ``count`` requests, and so many padded ones."""
        padded: dict[str, Any] = {"num_padding_requests": padding} if self.domain.padding != "none" else {}
        return self.case(list(short(count)), seed=count + 1, block_size=self.usual_block, **padded)

    def ids(self, largest: int) -> Case | None:
        """Return a case whose block ids end at ``largest``."""
        settled = HEAD_FEATURES if self.domain.head_dims is None else HEAD_FEATURES[:3]
        narrow = self.of(self.domain, self.named.difference(settled))
        sizes, in_rows = narrow.sizes, not {"row_format", "head_format"}.isdisjoint(self.features)
        block_size = min(sizes) if in_rows else max(sizes, key=lambda size: (size <= 256, size))
        case = narrow.case(list(short(9)), seed=largest, block_size=block_size)
        if case is None:
            return None
        offset = largest - max((max(r.block_ids, default=0) for r in case.batch.requests), default=0)
        return renamed(case, offset) if offset > 0 and largest <= self.domain.max_block_id else None

    def having(self, name: str, value: Any) -> "Ladder | None":
        """Return the ladder of cases with one value of an option, None if no case varies the option."""
        if (name, value) not in self._made:
            domain = self._having(name, value)
            self._made[name, value] = None if domain is None else self.of(domain, self.named)
        return self._made[name, value]

    def under(self, **options: Any) -> "Ladder | None":
        """Return the ladder of cases with these values of options, None if no case varies one of them."""
        found: Ladder | None = self
        for name, value in options.items():
            found = None if found is None else found.having(name, value)
        return found

    def preferring(self, **options: Any) -> "Ladder":
        """Return the ladder of cases with these values of options, of those that some case varies."""
        found = self
        for name, value in options.items():
            found = found.having(name, value) or found
        return found

    def without(self, *features: str) -> "Ladder":
        """Return the ladder of cases in which these features are neutral."""
        return self.of(self._given, self.named.difference(features))

    def in_rows_of(self, row_format: str) -> "Ladder | None":
        """Return the ladder of cases with latent rows of one format, as wide as those of released models."""
        domain = with_rows(self._given, row_format) if "row_format" in self.named else None
        return None if domain is None else self.of(domain, self.named)

    def seeded(self, name: str, seed: int) -> "Ladder | None":
        """Return the ladder of cases with a value of an option that is 0 in the others, as a seed is."""
        domain = with_option(self._given, name, seed, self.named) if feature_of(name) in self.named else None
        return None if domain is None else self.of(domain, self.named)

    def routing(
        self,
        shape: RouterShape,
        logits: str = "negative",
        dtype: str | None = None,
        bias: str = "as_logits",
    ) -> "Ladder | None":
        """Return the ladder of a router of this shape, with logits and biases of one kind if they may be.

        ``dtype``: that of logits and biases, if they may have it; None for any.
        """
        domain = with_router(self._given, shape, logits, dtype, bias) if "router" in self.named else None
        return None if domain is None else self.of(domain, self.named)

    def step(
        self,
        lens: Sequence[Lens],
        *,
        seed: int,
        block_size: int = 0,
        padding: tuple[int, int] | None = None,
        room: tuple[int, int] | None = None,
        holes: bool = False,
    ) -> Case | None:
        """Return a case of these requests. ``padding``: padded tokens and requests, where steps have any.

        ``room``: rows and columns of the table that belong to no request. ``holes``: some requests lack
        blocks, or a row.
        """
        layout: dict[str, Any] = {}
        if padding is not None and self.domain.padding != "none":
            layout = dict(zip(("num_padding_tokens", "num_padding_requests"), padding, strict=True))
        if padding == (0, 0) and 0 in self.domain.among("num_padding_slots", (0,)):
            layout["num_padding_slots"] = 0
        if room is not None:
            layout |= dict(zip(("num_spare_rows", "num_spare_columns"), room, strict=True))
        return self.case(lens, seed=seed, block_size=block_size or self.usual_block, holes=holes, **layout)

    def _having(self, name: str, size: Any) -> Domain | None:
        """Return the domain with one value of an option, None if no case varies the option."""
        if ("row_format" if name == "row" else feature_of(name)) not in self.named:
            return None
        return with_option(self.domain, name, size, self.named)

    @property
    def unlimited(self) -> "Ladder":
        """The ladder of cases without a window, which hides most columns of a row, if the domain has such."""
        return self.having("window", 0) or self

    @property
    def misses_blocks(self) -> bool:
        """Whether requests lack blocks in some cases."""
        return "missing_blocks" in self.named and self.domain.missing_blocks

    @property
    def hides_lens(self) -> bool:
        """Whether the host has no lengths in some steps."""
        return "host_lens" in self.named and False in self.domain.among("host_lens", (False,))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The block sizes of cases."""
        return block_sizes(self.domain, self.features)

    @property
    def usual_block(self) -> int:
        """The block size of a case whose block size does not matter."""
        return self.nearest_block(16)

    def nearest_block(self, block_size: int) -> int:
        """Return the block size of cases that is nearest to this one."""
        return min(self.sizes, key=lambda size: abs(size - block_size))

    def case(
        self, lens: Sequence[Lens], *, seed: int, block_size: int, holes: bool = False, **layout: Any
    ) -> Case | None:
        """Return a case of these requests. ``layout``: fields of it; ``holes``: as of `step`."""
        domain, features = self.domain, self.features
        how: dict[str, Any] = {"admits": self._admits, "seed": seed, "block_size": block_size, "holes": holes}
        return sized_case(domain, features, lens, **how, **layout)
