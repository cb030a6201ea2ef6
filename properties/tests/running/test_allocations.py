"""Memory that a function allocates holds poison, on the host too."""

from typing import Any

import numpy as np
import pytest
import torch

from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.bench import POISON
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

DEVICE = prepare("auto")


def test_scratch_memory_of_numpy_holds_poison() -> None:
    plain = np.empty, np.empty_like
    with FencedAllocations(POISON):
        made = [np.empty((2, 3), dtype=np.int32), np.empty(2, order="F"), np.empty_like(np.ones((3, 2)).T)]
        objects, nothing = np.empty(1, dtype=object), np.empty(0)
    assert all(set(each.tobytes()) == {POISON} for each in made)
    assert objects[0] is None and nothing.size == 0
    assert (np.empty, np.empty_like) == plain


@pytest.mark.parametrize("size", [2, 7, 300, 5000])
def test_what_a_resized_tensor_has_more_is_poison_between_guards(size: int) -> None:
    with FencedAllocations(POISON) as allocated:
        made = torch.full((4,), 7, dtype=torch.int32, device=DEVICE)
        part = made[1:3]
        made.resize_(size)
        kept = min(size, 4)
        assert made[:kept].tolist() == [7] * kept and allocated.made(made)
        assert set(made[4:].cpu().numpy().tobytes()) <= {POISON}
        made.fill_(5)
        assert part.tolist() == [5, 5 if size > 2 else 7]
        assert not list(allocated.damage())
        made.as_strided((1,), (1,), made.storage_offset() + max(size, 4)).zero_()
    assert list(allocated.damage()) == ["allocated tensor 0 was written outside its elements"]


def test_what_an_empty_tensor_gets_by_its_new_size_is_poison() -> None:
    with FencedAllocations(POISON) as allocated:
        made = torch.empty(0, dtype=torch.int32, device=DEVICE).resize_(5)
        alike = torch.empty(0, dtype=torch.int32, device=DEVICE).resize_as_(made)
        turned = torch.empty_permuted((2, 3), (1, 0), dtype=torch.int32, device=DEVICE)
    assert all(set(each.cpu().numpy().tobytes()) == {POISON} for each in (made, alike, turned))
    assert not list(allocated.damage())


@torch.library.custom_op("cumae_tests::doubled", mutates_args=("twice",))
def doubled(numbers: torch.Tensor, twice: torch.Tensor) -> torch.Tensor:
    """Write twice the numbers, and return memory that nothing was written to."""
    made = torch.empty_like(numbers)
    torch.add(numbers, numbers, out=twice)
    return made


@torch.library.custom_op("cumae_tests::tripled", mutates_args=())
def tripled(numbers: torch.Tensor) -> torch.Tensor:
    """Call another operator."""
    twice = torch.zeros_like(numbers)
    return doubled(numbers, twice) if numbers.numel() > 1 else twice.add_(numbers)


@pytest.mark.parametrize("operator", [doubled, tripled])
def test_memory_inside_an_operator_in_python_holds_poison(operator: Any) -> None:
    numbers, twice = torch.arange(1, 4, device=DEVICE), torch.zeros(3, dtype=torch.int64, device=DEVICE)
    with FencedAllocations(POISON) as allocated:
        made = doubled(numbers, twice) if operator is doubled else tripled(numbers)
    assert set(made.cpu().numpy().tobytes()) == {POISON}
    assert allocated.made(made) and not list(allocated.damage())
    assert twice.tolist() == ([2, 4, 6] if operator is doubled else [0, 0, 0])


@torch.library.custom_op("cumae_tests::of_lists", mutates_args=())
def of_lists(many: list[torch.Tensor]) -> torch.Tensor:
    """Return memory that nothing was written to."""
    return torch.empty_like(many[0])


@torch.library.custom_op("cumae_tests::of_none", mutates_args=())
def of_none(count: int, device: torch.device) -> torch.Tensor:
    """Return zeros, without a tensor as an argument."""
    return torch.zeros(count, device=device)


def test_operators_in_python_take_lists_or_no_tensor() -> None:
    with FencedAllocations(POISON) as allocated:
        made = of_lists([torch.ones(2, device=DEVICE)])
        assert of_none(3, torch.device(DEVICE)).tolist() == [0, 0, 0]
    assert allocated.made(made)


def test_an_operator_in_python_that_reads_what_nobody_wrote_is_found() -> None:
    @torch.library.custom_op("cumae_tests::positions", mutates_args=("position_ids",))
    def positions(position_ids: torch.Tensor) -> None:
        made = torch.empty_like(position_ids)
        position_ids.copy_(torch.where(made == 0x0101010101010101 * POISON, 1, 0))

    verdict = check(positions, "position_ids", checks=("agrees",), examples=3, save_to=None)
    assert verdict.failure is not None and verdict.failure.finding.actual == "1"
