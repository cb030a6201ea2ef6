"""What an engine is set to while it runs: blocks, ranks, options and sizes."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from cumae.oracle import GARBAGE_KINDS, Batch, Layout, Options
from cumae.properties.cases.choices import Choices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What an engine is made for: requests at a time, blocks of one, and tokens of a step."""

    num_rows: int = 4
    blocks_each: int = 4
    budget: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What does not change while an engine runs; ``buckets``: tokens are padded as for captured graphs."""

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
    """Return the setting of an engine whose steps lie in a domain."""
    small = [size for size in domain.block_sizes if size <= 16] or domain.block_sizes
    block_size = choices.pick(small)
    world = choices.pick((1, 1, 2, 3)) if "world" in features else 1
    # One padded request is always there, so a dummy request may take the padding tokens.
    padded = Layout(num_padding_requests=int(domain.padding != "none"))
    options = draw_options(choices, domain, Batch((), block_size, world), padded, features)
    if options.topk > 64:
        options = replace(options, topk=8, split_size=min(options.split_size, 8))
    layout = Layout(
        garbage=choices.pick(GARBAGE_KINDS),
        index_dtype=choices.pick(domain.index_dtypes),
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
        sizes=sizes,
    )
