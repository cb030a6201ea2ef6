"""The fixed settings of a running engine: blocks, ranks, options and sizes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from cumae.oracle import GARBAGE_KINDS, INDEX_DTYPES, Batch, Layout, Options
from cumae.properties.cases.choices import Choices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_options
from cumae.properties.cases.page_formats import block_sizes

MOST_BLOCKS = 256
MOST_SELECTED = 2**14
MOST_DRAFTS = 3
"""Tokens that a decode has beyond its first one, at most."""
MOST_NEEDED = 64
"""Requests of an engine whose steps need more of them than it has rows; one that needs more is not walked."""
BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The capacity of an engine: concurrent requests, blocks of a request, and tokens of a step.

    ``least_tokens``: a request has more blocks if these tokens need them, up to ``MOST_BLOCKS``.
    ``large_blocks``: blocks have at least 16 tokens, where the domain allows; else at most 16.
    """

    num_rows: int = 4
    blocks_each: int = 4
    budget: int = 32
    least_tokens: int = 0
    large_blocks: bool = False


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
    worlds: Sequence[int] = (1, 1, 2, 3),
    topk: Sequence[int] = (),
    buckets: bool | None = None,
) -> Setting:
    """Return the setting of an engine whose steps lie inside a domain.

    ``worlds``, ``topk``: the usual numbers of ranks and of selected keys, used if the domain promises no
    others; without ``topk``, a small number is drawn.
    """
    usual = block_sizes(domain, features)
    fits = [size for size in usual if (size >= 16 if sizes.large_blocks else size <= 16)]
    block_size = choices.pick(fits or usual)
    worlds = domain.among("world", worlds)
    world = choices.pick(worlds) if "world" in features else domain.settled("world")
    # A padded request in every step, if the domain has padding, may take the padding tokens.
    padded = Layout(num_padding_requests=int(domain.padding != "none"))
    options = draw_options(choices, domain, Batch((), block_size, world), padded, features)
    options = _with_topk(choices, domain, features, options, topk, sizes.budget)
    garbage, dtype = choices.pick(GARBAGE_KINDS), choices.pick(domain.among("index_dtype", INDEX_DTYPES))
    gap, multiple = choices.pick(((0, 1), (0, 64), (3, 1))) if domain.strided else (0, 1)
    layout = Layout(garbage=garbage, index_dtype=dtype, table_row_gap=gap, table_row_multiple=multiple)
    in_buckets = choices.chance(50) if buckets is None else buckets
    in_buckets = (
        in_buckets and domain.padding != "none" and _largest_bucket(domain, sizes) >= domain.min_tokens
    )
    return Setting(
        block_size=block_size,
        world=world,
        options=options,
        layout=layout,
        buckets=in_buckets,
        sizes=_within(domain, sizes, block_size * world, in_buckets=in_buckets),
    )


def _with_topk(
    choices: Choices,
    domain: Domain,
    features: Collection[str],
    options: Options,
    topk: Sequence[int],
    budget: int,
) -> Options:
    """Return options with one of these numbers of selected keys, or with a small one if there is none.

    Without splits, a step's selected keys are buffers of their own: the number is limited by their size.
    """
    have, split_size = options.selection.topk, options.schedule.split_size
    if "topk" not in features or "topk" in domain.values or (not topk and have <= 64):
        return options
    splits = "split_size" in features
    have = choices.pick(topk) if topk else 8
    have = have if splits else min(have, MOST_SELECTED // budget)
    if splits and "split_size" not in domain.values:
        split_size = max(split_size, 64) if have > 64 else min(split_size, have)
    return options.having(topk=have, split_size=split_size)


def _within(domain: Domain, sizes: Sizes, tokens_per_block: int, *, in_buckets: bool) -> Sizes:
    """Return the sizes, limited to the requests, tokens, contexts and block ids that a domain promises."""
    each = min(domain.max_query_len, 1 + MOST_DRAFTS) if domain.only_decodes else domain.max_query_len
    requests = min(max(domain.min_requests, -(-domain.min_tokens // max(each, 1))), MOST_NEEDED)
    least_each = 2 if domain.verify_steps else int(not domain.empty_requests)
    budget = max(min(sizes.budget, domain.max_tokens), domain.min_tokens, least_each * requests)
    if in_buckets:
        budget = _largest_bucket(domain, sizes)
    room = domain.max_block_id + 1 - domain.reserved_blocks
    rows = min(max(sizes.num_rows, requests), room - 1, domain.max_requests)
    rows = max(1, min(rows, budget // 2) if domain.verify_steps else rows)
    least = max(sizes.least_tokens, domain.min_tokens)
    blocks = max(sizes.blocks_each, min(-(-least // tokens_per_block), MOST_BLOCKS))
    blocks = min(blocks, room // (rows + 1), 1 + domain.max_context_len // tokens_per_block)
    return replace(sizes, num_rows=rows, blocks_each=max(1, blocks), budget=budget)


def _largest_bucket(domain: Domain, sizes: Sizes) -> int:
    """Return the most tokens of a step that is padded to a bucket."""
    most = min(max(sizes.budget, domain.min_tokens), domain.max_tokens)
    return max(bucket for bucket in BUCKETS if bucket <= most)
