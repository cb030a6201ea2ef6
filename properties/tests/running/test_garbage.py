"""A case leaves no garbage behind, so a search collects it less often."""

import gc
from collections.abc import Iterator

import pytest
import torch

from cumae.oracle import OperationName
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.buffer import Buffer
from cumae.properties.running.device import OBJECTS, prepare, rare_collections

DEVICE = prepare("auto")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Set what Python begins with, and undo it."""
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*threshold)


def test_garbage_is_collected_less_often_until_the_end_or_an_error() -> None:
    with rare_collections():
        assert gc.get_threshold() == (OBJECTS, 10, 10)
        with rare_collections():
            pass
        assert gc.get_threshold() == (OBJECTS, 10, 10)
    with pytest.raises(RuntimeError, match="mine"), rare_collections():
        raise RuntimeError("mine")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("mine", [0, 50_000])
def test_a_larger_threshold_and_none_stay(mine: int) -> None:
    gc.set_threshold(mine, 5, 5)
    with rare_collections():
        assert gc.get_threshold() == (mine, 5, 5)


@pytest.mark.parametrize(
    ("kernel", "operation"), [("write_slot_mapping", "slot_mapping"), ("MetadataCache", "metadata_cache")]
)
def test_the_memory_of_a_case_goes_with_its_trial(kernel: str, operation: OperationName) -> None:
    binding = binding_of(load_function(f"cumae.gpu_impl:{kernel}"), operation)
    case = next(c for c in seeded_cases(1, binding.domain, binding.features) if c.num_tokens_padded > 1)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for check in checks_for(binding):
            assert CHECKS[check](Trial(binding, case, DEVICE)) is None
        gc.collect()
        left = [one for one in gc.garbage if isinstance(one, (Buffer, torch.Tensor))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left
