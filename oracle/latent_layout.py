"""A view of a cache of latent rows with its two middle dimensions exchanged, without a copy."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from cumae.oracle.model.rules import require, require_int


class LatentLayout(NamedTuple):
    """Shape and strides of the view, in elements; it begins at the first element of the cache."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


def latent_layout(shape: Sequence[int], strides: Sequence[int]) -> LatentLayout:
    """Return the view of a cache ``[num_blocks, 1, block_size, D]`` as ``[num_blocks, block_size, 1, D]``.

    ``shape``, ``strides`` of the cache, in elements. The view must equal a transposed copy and be as dense:
    its elements follow one another in memory, in the order of the view. This holds for a dense cache if one
    of the exchanged dimensions is 1, or if the cache has no elements. The strides are those of a new tensor
    of this shape, even where a dimension of size 1 would allow others.

    Raises ``ValueError`` that names shape and strides for every other cache: a copy is never made.
    Source: FastDeploy#7253.

    >>> latent_layout((7, 1, 4, 6), (24, 24, 6, 1))
    LatentLayout(shape=(7, 4, 1, 6), strides=(24, 6, 6, 1))
    >>> latent_layout((7, 1, 4, 6), (48, 24, 6, 1))
    Traceback (most recent call last):
    ValueError: (shape, strides) = ((7, 1, 4, 6), (48, 24, 6, 1)), must have rows without gaps
    """
    shape, strides = tuple(shape), tuple(strides)
    for name, numbers in (("shape", shape), ("strides", strides)):
        require(len(numbers) == 4, name, numbers, "be four numbers")
        for axis, number in enumerate(numbers):
            require_int(f"{name}[{axis}]", number, 0, 2**63 - 1)
    one_behind_the_other = all(i == place for i, place in enumerate(_places(shape, strides)))
    require(one_behind_the_other, "(shape, strides)", (shape, strides), "have rows without gaps")
    seen_shape, seen_strides = _exchanged(shape), _exchanged(strides)
    in_the_same_order = all(i == place for i, place in enumerate(_places(seen_shape, seen_strides)))
    rule = "have shape[1] or shape[2] = 1, or no elements: other shapes need a copy"
    require(in_the_same_order, "(shape, strides)", (shape, strides), rule)
    return LatentLayout(seen_shape, _dense(seen_shape))


def _places(shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[int]:
    """Yield where each element lies, the last index running fastest."""
    for index in product(*(range(size) for size in shape)):
        yield sum(i * stride for i, stride in zip(index, strides, strict=True))


def _exchanged(numbers: tuple[int, ...]) -> tuple[int, ...]:
    first, second, third, fourth = numbers
    return first, third, second, fourth


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * max(size, 1))
    return tuple(strides[::-1])
