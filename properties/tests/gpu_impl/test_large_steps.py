"""Launches of large steps only: lists of more requests than a program scans, smaller programs for rows."""

import importlib
from itertools import islice

import pytest

from cumae.properties.cases.seeded import large_case, seeded_cases
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.dialects import CUMAE
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import bind
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
LISTS = (
    "allocate_slots",
    "chunked_context",
    "draft_steps",
    "flat_decodes",
    "kv_indices",
    "sequence_chunks",
)
SHORT_LISTS = {"prefix_interleave.ROWS_OF_FLAT": 16, "prefix_interleave.VECTORS_OF_FLAT": 32}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("num_requests", [4097, 7000])
@pytest.mark.parametrize("name", LISTS)
def test_thousands_of_requests_are_listed(
    name: str, num_requests: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed == 2:  # so that sums are carried over several chunks of tiles
        monkeypatch.setattr(importlib.import_module("cumae.gpu_impl.tile_ends"), "TILES_PER_CHUNK", 4)
    operation = OPERATIONS[name]
    (kernel,) = operation.kernels
    binding = bind(load_function(kernel), operation, CUMAE)
    case = large_case(
        seed, binding.domain, binding.features, num_requests=num_requests, num_tokens=3 * num_requests
    )
    trial = Trial(binding, case, DEVICE)
    for check in ("agrees", "writes_everything", "stays_in_bounds", "is_deterministic"):
        assert CHECKS[check](trial) is None


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("cache_write", {"cache_write.MOST_OF_FEW": 0}),
        ("prefix_interleave", {"prefix_interleave.MOST_OF_FEW": 0}),
        ("prefix_interleave", {"prefix_interleave.LEAST_OF_FLAT": 0}),
        # Lists of so few rows that most programs copy all of theirs, some in several passes.
        ("prefix_interleave", {"prefix_interleave.LEAST_OF_FLAT": 0, **SHORT_LISTS}),
        ("page_write", {"plane_copy.MANY_SHORT": 0}),
        ("page_read", {"plane_copy.MANY_SHORT": 0}),
    ],
)
def test_programs_for_many_rows_write_few_rows_too(
    name: str, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in limits.items():
        monkeypatch.setattr(f"cumae.gpu_impl.{limit}", value)
    operation = OPERATIONS[name]
    (kernel,) = operation.kernels
    binding = bind(load_function(kernel), operation, CUMAE)
    for case in islice(seeded_cases(3, binding.domain, binding.features), 30):
        trial = Trial(binding, case, DEVICE)
        for check in ("agrees", "writes_everything", "stays_in_bounds"):
            assert CHECKS[check](trial) is None
