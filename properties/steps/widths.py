"""Cases whose blocks, heads or rows are as wide as chosen."""

from collections.abc import Iterable
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.promises import BLOCK_SIZES
from cumae.properties.steps.crowds import Lens, short
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.narrowed import WIDE_ROW, with_option


def broad(ladder: Ladder, num_heads: int, dim: int, count: int) -> Case | None:
    """Return a case of more than ``count`` cached tokens and as many new ones, with wide rows or heads.

    Drawn cases have few and narrow heads if they have many tokens.
    """
    domain, varied = ladder.domain, {"num_heads", "head_dims"} & ladder.named
    if "num_heads" in varied:
        domain = with_option(domain, "num_heads", num_heads, ladder.named) or domain
    if "head_dims" in varied and domain.head_dims is None:
        domain = domain.having(head_dims=((dim, dim),))
    if "row_format" in ladder.named and domain.latent_dims is None:
        domain, varied = domain.having(latent_dims=(WIDE_ROW,)), {"row_format"}
    if not varied:
        return None
    lens: list[Lens] = [("prefill", 3, count // 2), ("decode", count, 1), ("prefill", 0, 0)]
    lens += [("prefill", 18, count // 2 + 5), ("decode", 9, 1)]
    return ladder.of(domain, ladder.named).case(lens, seed=count, block_size=ladder.usual_block)


def large_blocks(ladder: Ladder) -> Case | None:
    """Return a case of blocks beyond those of drawn cases, if the domain has such.

    A kernel's blocks are as large. No cache is made for them.
    """
    size = max(ladder.domain.block_sizes)
    whole = all(ladder.domain.holds_whole(name, size) for name in ("interleave", "kernel_block_size"))
    if size in ladder.sizes or not whole or not {"row_format", "head_format"}.isdisjoint(ladder.named):
        return None
    world = ladder.domain.settled("world")
    unit = size * world
    lens: list[Lens] = [("decode", unit // 2 + 3, 1), ("prefill", unit - 5, 5), ("prefill", 0, size)]
    lens += [("decode", 2 * unit - 1, 1), ("prefill", unit + unit // 3, 3)]
    uncut = ladder.of(ladder.unlimited.domain, ladder.named.difference({"kernel_block_size"}))
    if world > 1:
        alone = uncut.of(uncut.domain.having(block_sizes=(size,)), uncut.named)
        uncut = alone.having("interleave", size) or uncut
    return (uncut.having("page_slack", 0) or uncut).case(lens, seed=size, block_size=size)


def blocks(ladder: Ladder, size: int) -> Case | None:
    """Return a case of blocks of ``size`` tokens, if the domain promises all sizes.

    A kernel's blocks are as large.
    """
    if ladder.domain.block_sizes != BLOCK_SIZES:
        return None
    lens: list[Lens] = [("decode", 3 * size, 1), ("prefill", size - 2, 5), ("prefill", 1, size)]
    return _promising(ladder.without("kernel_block_size"), lens, size, block_sizes=(size,))


def heads(ladder: Ladder, dim: int) -> Case | None:
    """Return a case of pages of keys and values of ``dim`` numbers, if the domain promises all."""
    if "head_dims" not in ladder.named or ladder.domain.head_dims is not None:
        return None
    return _promising(ladder, short(5), dim, head_dims=((dim, dim),))


def _promising(ladder: Ladder, lens: Iterable[Lens], seed: int, **promises: Any) -> Case | None:
    """Return a case of the domain with other promises, if these are valid."""
    try:
        promising = ladder.of(ladder.domain.having(**promises), ladder.named)
        return promising.case(list(lens), seed=seed, block_size=promising.usual_block)
    except ValueError:
        return None
