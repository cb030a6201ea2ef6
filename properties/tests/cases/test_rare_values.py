"""Usual values tell apart what is the same for odd numbers and powers of two, and quotients made in fp32."""

from itertools import islice

import numpy as np
import pytest

from cumae.oracle import Case
from cumae.properties.cases.domain import DRAWN_BLOCK_SIZES, Domain
from cumae.properties.cases.seeded import seeded_cases

VALUES = {
    "world": lambda case: case.batch.world,
    "ring_capacity": lambda case: case.options.ring.ring_capacity,
    "split_size": lambda case: case.options.schedule.split_size,
    "num_workers": lambda case: case.options.schedule.num_workers,
    "chunk_size": lambda case: case.options.chunks.chunk_size,
    "topk": lambda case: case.options.selection.topk,
    "window": lambda case: case.options.keys.window,
    "num_heads": lambda case: case.options.heads.num_heads,
    "block_size": lambda case: case.batch.block_size,
}


@pytest.fixture(scope="module")
def drawn() -> list[Case]:
    return list(islice(seeded_cases(11, Domain()), 1500))


@pytest.mark.parametrize("name", VALUES)
def test_even_values_that_are_no_powers_of_two_are_drawn(name: str, drawn: list[Case]) -> None:
    assert any(value % 2 == 0 < value & (value - 1) for value in map(VALUES[name], drawn))


def _is_right_in_fp32(size: int) -> bool:
    positions = np.arange(2**16)
    rounded = (positions.astype(np.float32) * (np.float32(1) / np.float32(size))).astype(np.int64)
    return bool((rounded == positions // size).all())


def test_a_product_with_the_reciprocal_is_wrong_for_some_sizes(drawn: list[Case]) -> None:
    assert not all(map(_is_right_in_fp32, DRAWN_BLOCK_SIZES))
    for name in ("split_size", "chunk_size", "ring_capacity"):
        assert not all(map(_is_right_in_fp32, {VALUES[name](case) for case in drawn}))
