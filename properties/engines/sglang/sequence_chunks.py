"""Chunks of linear attention."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case
from cumae.properties.dialects import SGLANG
from cumae.properties.engines.cut_chunks import OF_ROWS, chunks_of_rows, of_chunks
from cumae.properties.engines.pages import having
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


def _rows_before(case: Case) -> list[int]:
    """Return how many rows of each chunk's multiple belong to requests before."""
    return [row % case.options.chunks.chunk_size for _, row in chunks_of_rows(case)]


def _multiples(case: Case) -> list[int]:
    """Return the multiple of chunk_size rows in which each chunk lies."""
    return [row // case.options.chunks.chunk_size for _, row in chunks_of_rows(case)]


@ENGINE.adapts(
    "sglang/srt/layers/attention/mamba/mamba2_metadata.py",
    "Mamba2Metadata._query_start_loc_to_chunk_indices_offsets",
    operation="sequence_chunks",
    dialect=having(
        SGLANG,
        "sequence_chunks",
        of_chunks("multiples", OF_ROWS, _multiples),
        of_chunks("rows_before", OF_ROWS, _rows_before),
    ),
    domain=EXTENDS.having(empty_requests=False),
)
def chunk_indices_offsets(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Chunks of Mamba2, which end at multiples of the row of the step; every request has rows."""

    def launch(cu_seqlens_q: Tensor, chunk_size: int) -> dict[str, Tensor]:
        multiples, rows_before = function(cu_seqlens_q, chunk_size, int(cu_seqlens_q[-1]))
        return {"multiples": multiples, "rows_before": rows_before}

    return launch
