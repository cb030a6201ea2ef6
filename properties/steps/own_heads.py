"""Steps of few tokens in heads of 128 with own scales, in large packed pages, in keys wider than values."""

from collections.abc import Mapping
from functools import partial

from cumae.properties.steps.headed_steps import Steps, with_heads

SIZES = (25, 18, 14)


def _of(
    heads: tuple[int, int], head_format: str, order: str, *, value_dim: int = 0, block_size: int = 0
) -> tuple[str, Steps]:
    """Return a name, what builds a step of these heads in these pages, and its sizes."""
    build = partial(with_heads, order, head_format, heads, value_dim=value_dim, block_size=block_size)
    wide = f"{heads[1]} and {value_dim}" if value_dim else heads[1]
    pages = f"{order}, pages of {block_size}" if block_size else order
    return f"few tokens in {heads[0]} heads of {wide} in {head_format}, {pages}", (build, SIZES)


OWN_HEADS: Mapping[str, Steps] = dict(
    (
        _of((8, 128), "int8_own", "NHD"),
        _of((4, 128), "int8_own", "HND"),
        _of((2, 128), "int8_own", "joined"),
        _of((8, 128), "fp8_own", "HND"),
        _of((4, 128), "fp8_own", "joined"),
        _of((4, 192), "bf16", "NHD", value_dim=128),
        _of((4, 192), "fp8", "HND", value_dim=128),
        _of((8, 128), "fp8", "packed", block_size=128),
        _of((8, 64), "fp8", "shuffled", block_size=128),
    )
)
"""By name: what builds the case of a size, and the sizes; the first that is not too much is visited."""
