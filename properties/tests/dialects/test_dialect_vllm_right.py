"""Implementations that are right under vLLM's names pass every check."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.right_for_vllm import (
    chunks_of_context,
    layout_of_requests,
    positions_of_tokens,
    slots_by_virtual_block,
    slots_in_front,
    slots_of_selected_tokens,
    windows_of_a_chunk,
)

DEVICE = prepare("auto")
RIGHT: dict[str, Callable[..., Any]] = {
    "sequence_layout": layout_of_requests,
    "position_ids": positions_of_tokens,
    "slot_mapping": slots_by_virtual_block,
    "causal_windows": windows_of_a_chunk,
    "topk_to_slots": slots_of_selected_tokens,
    "compact_topk_slots": slots_in_front,
    "chunked_context": chunks_of_context,
}


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "vllm")
    return search(
        binding, DEVICE, Budget(examples=30, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize("operation", RIGHT)
def test_a_right_kernel_passes_every_check(operation: str) -> None:
    verdict = verdict_on(RIGHT[operation], operation)
    assert verdict.failure is None, verdict.failure
    assert verdict.cases >= 30


def test_the_launcher_of_the_design_document_binds() -> None:
    def mine(
        query_start_loc: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        num_tokens: int,
        slot_mapping: torch.Tensor,
        TILE: int = 1024,
    ) -> None:
        slots_by_virtual_block(
            query_start_loc, positions, block_table, block_size, block_size, num_tokens, 1, 0, 1, slot_mapping
        )

    assert verdict_on(mine, "slot_mapping").ok
