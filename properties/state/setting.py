"""The fixed settings of a running engine: blocks, ranks, options and sizes."""

from collections.abc import Collection
from dataclasses import dataclass

from cumae.oracle import GARBAGE_KINDS, INDEX_DTYPES, Batch, Layout, Options
from cumae.properties.cases.choices import Choices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_options

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The capacity of an engine: concurrent requests, blocks of a request, and tokens of a step."""

    num_rows: int = 4
    blocks_each: int = 4
    budget: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The fixed settings of a running engine; ``buckets``: pad tokens as for captured graphs."""

    block_size: int
    world: int
    options: Options
    layout: Layout
    buckets: bool
    sizes: Sizes

    @property
    def tokens_per_block(self) -> int:
        """Tokens of a request that one block id stands for."""
        return self.block_size * self.world

    @property
    def most_tokens(self) -> int:
        """Tokens that a request can have."""
        return self.tokens_per_block * self.sizes.blocks_each


def draw_setting(
    choices: Choices,
    domain: Domain,
    features: Collection[str],
    sizes: Sizes,
    *,
    buckets: bool | None = None,
) -> Setting:
    """Return the setting of an engine whose steps lie inside a domain."""
    small = [size for size in domain.sizes if size <= 16] or domain.sizes
    block_size = choices.pick(small)
    worlds = domain.among("world", (1, 1, 2, 3))
    world = choices.pick(worlds) if "world" in features else domain.settled("world")
    # A padded request in every step, if the domain has padding, may take the padding tokens.
    padded = Layout(num_padding_requests=int(domain.padding != "none"))
    options = draw_options(choices, domain, Batch((), block_size, world), padded, features)
    if options.selection.topk > 64 and "topk" not in domain.values:
        options = options.having(topk=8, split_size=min(options.schedule.split_size, 8))
    layout = Layout(
        garbage=choices.pick(GARBAGE_KINDS),
        index_dtype=choices.pick(domain.among("index_dtype", INDEX_DTYPES)),
        table_row_gap=choices.pick((0, 0, 3)) if domain.strided else 0,
    )
    in_buckets = choices.chance(50) if buckets is None else buckets
    in_buckets = in_buckets and domain.padding != "none"
    return Setting(
        block_size=block_size,
        world=world,
        options=options,
        layout=layout,
        buckets=in_buckets,
        sizes=_within(domain, sizes, in_buckets=in_buckets),
    )


def _within(domain: Domain, sizes: Sizes, *, in_buckets: bool) -> Sizes:
    """Return the sizes, limited to the step tokens and block ids that a domain promises."""
    budget = min(sizes.budget, domain.max_tokens)
    if in_buckets:
        budget = max(bucket for bucket in BUCKETS if bucket <= budget)
    room = domain.max_block_id + 1 - domain.reserved_blocks
    rows = max(1, min(sizes.num_rows, room - 1))
    return Sizes(num_rows=rows, blocks_each=max(1, min(sizes.blocks_each, room // (rows + 1))), budget=budget)
