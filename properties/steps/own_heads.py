"""Steps in heads of 128 numbers with own scales, in large packed pages, and in keys wider than values."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import mixed
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder


def in_heads(options: Mapping[str, Any], block_size: int, ladder: Ladder, count: int) -> Case | None:
    """Return a case of ``count`` decodes and a chunk of as many tokens, in heads and pages of these options.

    ``block_size``: 0 for the usual one.
    """
    chosen = ladder.under(**options)
    if chosen is None or (block_size and block_size not in chosen.sizes):
        return None
    lens: list[Lens] = [("decode", 5 + mixed(b) % 30, 1) for b in range(count)]
    lens.append(("prefill", 9, count))
    return chosen.unlimited.step(lens, seed=count, padding=(0, 0), block_size=block_size)


def _of(
    num_heads: int, dims: tuple[int, int], head_format: str, order: str, block_size: int = 0
) -> tuple[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]]:
    """Return a name, what builds a step of these heads in these pages, and its sizes."""
    options = {
        "page_order": order,
        "head_format": head_format,
        "head_dims": dims,
        "num_heads": num_heads,
    }
    wide = dims[0] if dims[0] == dims[1] else f"{dims[0]} and {dims[1]}"
    pages = f"{order}, pages of {block_size}" if block_size else order
    name = f"few tokens in {num_heads} heads of {wide} in {head_format}, {pages}"
    return name, (partial(in_heads, options, block_size), (16, 9, 5))


MHA = (128, 128)
OWN_HEADS: Mapping[str, tuple[Callable[[Ladder, int], Case | None], Sequence[int]]] = dict(
    (
        _of(8, MHA, "int8_own", "NHD"),
        _of(4, MHA, "int8_own", "HND"),
        _of(2, MHA, "int8_own", "joined"),
        _of(8, MHA, "fp8_own", "HND"),
        _of(4, MHA, "fp8_own", "joined"),
        _of(4, (192, 128), "bf16", "NHD"),
        _of(4, (192, 128), "fp8", "HND"),
        _of(8, MHA, "fp8", "packed", 128),
        _of(8, (64, 64), "fp8", "shuffled", 128),
    )
)
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
