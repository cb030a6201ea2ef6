"""FlashInfer's metadata functions under its dialect."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.cases.domain import Domain
from cumae.properties.engines.adapter import Engine

Tensor = torch.Tensor
ENGINE = Engine("flashinfer", "flashinfer", ("0.7.2",), "flashinfer-python")


@ENGINE.adapts(
    "flashinfer/page.py",
    "get_batch_indices_positions",
    operation="position_ids",
    domain=Domain(min_requests=1, captured=False),
)
def positions_of_append(function: Any) -> Callable[..., None]:
    """Positions of appended tokens."""

    def launch(append_indptr: Tensor, seq_lens: Tensor, nnz: int, positions: Tensor) -> None:
        function(append_indptr, seq_lens, nnz, None, positions)

    return launch


@ENGINE.adapts(
    "flashinfer/page.py",
    "get_batch_indices_positions",
    operation="sequence_layout",
    domain=Domain(min_requests=1, captured=False),
)
def batch_indices_of_append(function: Any) -> Callable[..., None]:
    """Requests of appended tokens."""

    def launch(append_indptr: Tensor, seq_lens: Tensor, nnz: int, batch_indices: Tensor) -> None:
        function(append_indptr, seq_lens, nnz, batch_indices)

    return launch
