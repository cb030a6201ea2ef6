"""Attention through what the kernels shipped here wrote."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae.properties.attention import judged
from cumae.properties.attention.answers import NO_PART
from cumae.properties.attention.kernels import kernel_answer
from cumae.properties.attention.routes import ROUTES, WRITES
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.tests.given.attention_steps import fixed_steps

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
KERNELS = [(op.name, kernel) for op in OPERATIONS.values() if op.name not in NO_PART for kernel in op.kernels]


def faults_of(operation: str, function: Callable[..., Any]) -> tuple[int, list[str]]:
    """Return how many rows were compared in all steps, and what is wrong."""
    answers, rows, faults = {operation: kernel_answer(function, operation, DEVICE)}, 0, []
    for number, (previous, case) in enumerate(fixed_steps()[::2]):
        if any(operation in (*WRITES, *way.operations) and way.fits(case) for way in ROUTES):
            found = judged(case, answers, previous, through=[operation])
            rows += found.rows
            faults += [f"step {number}: {fault}" for fault in found.faults]
    return rows, faults


@pytest.mark.parametrize(("operation", "kernel"), KERNELS, ids=[kernel for _, kernel in KERNELS])
def test_attention_through_a_kernel_is_dense_attention(operation: str, kernel: str) -> None:
    rows, faults = faults_of(operation, load_function(kernel))
    assert rows > 9 and faults == []


def test_attention_through_a_kernel_that_forgets_the_context_is_not() -> None:
    def from_zero(
        token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor
    ) -> None:
        position_ids.zero_()
        for row, owner in enumerate(token_to_request.tolist()):
            if owner >= 0:
                position_ids[row] = row - cu_seqlens_q[owner]

    rows, faults = faults_of("position_ids", from_zero)
    assert rows > 50 and len(faults) > 5
