"""Chunks of linear attention."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS

Tensor = torch.Tensor
_INDEX = "sglang/kernels/ops/attention/fla/index.py"


@ENGINE.adapts(
    _INDEX, "prepare_chunk_indices", operation="sequence_chunks", domain=EXTENDS.having(empty_requests=False)
)
def prepare_chunk_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """(sequence, chunk) of the vendored copy, which counts sequences with rows only.

    A clone is passed, because results are cached by the tensor's identity.
    """

    def launch(cu_seqlens_q: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_indices": function(cu_seqlens_q.clone(), chunk_size)}

    return launch


@ENGINE.adapts(_INDEX, "prepare_chunk_offsets", operation="sequence_chunks", domain=EXTENDS)
def prepare_chunk_offsets(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of chunks of the vendored copy."""

    def launch(cu_seqlens_q: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_offsets": function(cu_seqlens_q.clone(), chunk_size)}

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/linear/kda_blackwell/__init__.py",
    "prepare_metadata",
    operation="sequence_chunks",
    domain=EXTENDS,
)
def kda_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Both in torch, empty sequences counted."""

    def launch(cu_seqlens_q: Tensor, chunk_size: int) -> dict[str, Tensor]:
        pairs, offsets, *_ = function(cu_seqlens_q, chunk_size)
        return {"chunk_indices": pairs, "chunk_offsets": offsets.long()}

    return launch
