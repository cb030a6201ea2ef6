"""Slots of a rank by two formulas, and where they differ."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumae.oracle import Batch, Case, Options, local_len
from cumae.properties.tests.given.worked_steps import prefill, slots


def by_position(p: int, manager: int, kernel: int, world: int, interleave: int) -> tuple[int, int, int]:
    """Return (rank, column, offset): the rank's own tokens are counted over the whole request."""
    local = p // (world * interleave) * interleave + p % interleave
    return p // interleave % world, local // kernel, local % kernel


def by_virtual_block(p: int, manager: int, kernel: int, world: int, interleave: int) -> tuple[int, int, int]:
    """Return (rank, column, offset): the rank's own tokens are counted within one virtual block (vLLM)."""
    within = p % (manager * world)
    local = within // (world * interleave) * interleave + within % interleave
    column = p // (manager * world) * (manager // kernel) + local // kernel
    return within // interleave % world, column, local % kernel


# Block size of the manager and of the kernel, ranks, interleave.
PARALLEL = [
    (manager, kernel, world, interleave)
    for manager, world, interleave in product(range(1, 7), range(1, 5), range(1, 8))
    for kernel in range(1, manager + 1)
    if manager % kernel == 0
]


class TestContextParallel:
    def test_two_formulas_agree_iff_the_interleave_divides_the_block(self) -> None:
        for parallel in PARALLEL:
            manager, _, world, interleave = parallel
            every = range(2 * manager * world * interleave)
            agree = all(by_position(p, *parallel) == by_virtual_block(p, *parallel) for p in every)
            assert agree == (world == 1 or manager % interleave == 0), parallel

    def test_where_they_differ_virtual_blocks_lose_a_token(self) -> None:
        for parallel in PARALLEL:
            manager, _, world, interleave = parallel
            places = [by_virtual_block(p, *parallel) for p in range(2 * manager * world * interleave)]
            distinct = len(set(places)) == len(places)
            assert distinct == (world == 1 or manager % interleave == 0), parallel

    def test_the_oracle_agrees_with_virtual_blocks(self) -> None:
        for manager, kernel, world, interleave in PARALLEL:
            if manager % interleave:
                continue
            length = 2 * manager * world + 1
            batch = Batch((prefill(0, length, 4, 1, 9),), manager, world)
            for rank in range(world):
                options = Options.of(rank=rank, interleave=interleave, kernel_block_size=kernel)
                expected = []
                for p in range(length):
                    owner, column, offset = by_virtual_block(p, manager, kernel, world, interleave)
                    parts = manager // kernel
                    block = (4, 1, 9)[column // parts] * parts + column % parts
                    expected.append(block * kernel + offset if owner == rank else -1)
                assert slots(batch, options=options) == expected

    def test_local_length_in_closed_form_is_the_counted_one(self) -> None:
        for length, world, interleave in product(range(40), range(1, 5), range(1, 6)):
            for rank in range(world):
                whole, rest = divmod(length, world * interleave)
                closed = whole * interleave + min(max(rest - rank * interleave, 0), interleave)
                assert local_len(length, world, rank, interleave) == closed

    def test_every_token_is_owned_once(self) -> None:
        for length, world, interleave in product(range(20), range(1, 5), range(1, 6)):
            assert sum(local_len(length, world, rank, interleave) for rank in range(world)) == length

    @given(st.integers(1, 4), st.integers(1, 4))
    @settings(max_examples=50, deadline=None, derandomize=False)
    def test_an_interleave_that_does_not_divide_the_block_is_refused(self, size: int, factor: int) -> None:
        batch = Batch((), size, world=2)
        with pytest.raises(ValueError, match=f"options.parallel.interleave = {size * factor + 1}"):
            Case(batch, options=Options.of(interleave=size * factor + 1))
