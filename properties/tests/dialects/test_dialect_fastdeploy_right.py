"""Kernels that are right under FastDeploy's names pass every check."""

from collections.abc import Callable
from typing import Any

import pytest

from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.right_for_fastdeploy import (
    keys_of_cache_and_tokens,
    layout_of_requests,
    positions_and_slots,
    positions_of_tokens,
    slots_of_positions,
    windows_of_tokens,
)

DEVICE = prepare("auto")
RIGHT = [
    (layout_of_requests, "sequence_layout"),
    (positions_of_tokens, "position_ids"),
    (positions_and_slots, "slot_mapping"),
    (slots_of_positions, "slot_mapping"),
    (windows_of_tokens, "causal_windows"),
    (keys_of_cache_and_tokens, "prefix_interleave"),
]


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "fastdeploy")
    return search(
        binding, DEVICE, Budget(examples=30, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(("function", "operation"), RIGHT, ids=lambda value: getattr(value, "__name__", ""))
def test_a_right_kernel_passes_every_check(function: Callable[..., Any], operation: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is None, verdict.failure
    assert verdict.cases >= 30
