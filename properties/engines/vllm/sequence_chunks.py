"""Chunks of sequences: of linear attention, of convolutions, and of Mamba."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case
from cumae.properties.dialects import VLLM
from cumae.properties.engines.cut_chunks import OF_ROWS, chunks_of_rows, of_chunks
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, STARTS, STEPS, UNPADDED

Tensor = torch.Tensor
_INDEX = "vllm/third_party/flash_linear_attention/ops/index.py"
_UTILS = "vllm/v1/attention/backends/utils.py"


@ENGINE.adapts(
    _INDEX,
    "prepare_chunk_indices",
    operation="sequence_chunks",
    domain=STEPS.having(empty_requests=False, padding="none"),
    async_tensor_h2d=lambda values, device, dtype: values.to(device, dtype),
)
def prepare_chunk_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """(sequence, chunk) of the vendored copy, which counts sequences with rows only.

    A clone is passed, because results are cached by the tensor's identity.
    """

    def launch(query_start_loc: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_indices": function(query_start_loc.clone(), chunk_size)}

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_chunk_offsets",
    operation="sequence_chunks",
    domain=STEPS,
)
def prepare_chunk_offsets(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of chunks of the vendored copy."""

    def launch(query_start_loc: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_offsets": function(query_start_loc.clone(), chunk_size)}

    return launch


@ENGINE.adapts(
    "vllm/models/kimi_k3/amd/kda_metadata.py",
    "prepare_chunk_metadata_device",
    operation="sequence_chunks",
    domain=STEPS,
)
def prepare_chunk_metadata_device(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Both by a Triton kernel with a program for each sequence."""

    def launch(query_start_loc: Tensor, chunk_size: int) -> dict[str, Tensor]:
        pairs, offsets = function(query_start_loc, query_start_loc.cpu(), chunk_size)
        return {"chunk_indices": pairs, "chunk_offsets": offsets}

    return launch


def _pinned(array: Any) -> Tensor:
    """Stand in for a copy into pinned memory."""
    return torch.from_numpy(array)


@ENGINE.adapts(
    _UTILS,
    "compute_causal_conv1d_metadata",
    operation="sequence_chunks",
    domain=STEPS.having(chunk_size=(8,)),
    np_to_pinned_tensor=_pinned,
    PIN_MEMORY=False,
)
def compute_causal_conv1d_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Sequence and number of each chunk of 8 rows; the lists go on with -1 up to a number of programs."""

    def launch(query_start_loc_cpu: Tensor) -> dict[str, Tensor]:
        device = query_start_loc_cpu.device
        _, sequences, numbers = function(query_start_loc_cpu, device=device)
        pairs = torch.stack([sequences[sequences >= 0], numbers[numbers >= 0]], 1)
        return {"chunk_indices": pairs}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mamba_attn.py",
    "BaseMambaAttentionMetadataBuilder._compute_chunk_metadata",
    operation="sequence_chunks",
    dialect=STARTS,
    domain=STEPS.having(empty_requests=False),
)
def compute_chunk_metadata(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Chunks of Mamba2, which end at multiples of the position; every prefill has a row."""

    def launch(
        chunk_size: int, num_reqs: int, num_computed_tokens_cpu: Tensor, query_start_loc_cpu: Tensor
    ) -> dict[str, Tensor]:
        lists = method(chunk_size, num_reqs, num_computed_tokens_cpu, query_start_loc_cpu)
        names = ("cu_chunk_seqlen", "seq_idx", "last_chunk_indices")
        named = zip(names, lists[:3], strict=True)
        return {name: torch.tensor(values, dtype=torch.int32) for name, values in named}

    return launch


def _first_rows(case: Case) -> list[int]:
    """Return the first row of each chunk, and the number of rows."""
    return [*(row for _, row in chunks_of_rows(case)), case.batch.num_tokens]


def _sequences(case: Case) -> list[int]:
    return [b for b, _ in chunks_of_rows(case)]


def _last_chunks(case: Case) -> list[int]:
    """Return the last chunk of each request, -1 for one without rows."""
    last = {b: chunk for chunk, b in enumerate(_sequences(case))}
    return [last.get(b, -1) for b in range(len(case.batch.requests))]


@ENGINE.adapts(
    "vllm/v1/attention/backends/mamba2_attn.py",
    "compute_varlen_chunk_metadata",
    operation="sequence_chunks",
    dialect=having(
        VLLM,
        "sequence_chunks",
        of_chunks("first_rows", OF_ROWS, _first_rows),
        of_chunks("sequences", OF_ROWS, _sequences),
        of_chunks("last_chunks", OF_ROWS, _last_chunks, "live_request"),
    ),
    domain=UNPADDED,
    async_tensor_h2d=lambda values, dtype, device: torch.tensor(values, dtype=dtype, device=device),
)
def varlen_chunk_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Chunks of Mamba2 without positions, which end at multiples of the row of the step."""

    def launch(query_start_loc: Tensor, chunk_size: int) -> dict[str, Tensor]:
        rows, last, sequences = function(query_start_loc, chunk_size)
        return {"first_rows": rows, "sequences": sequences, "last_chunks": last}

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_lens",
    operation="local_lens",
    domain=STEPS.having(world=(1,), phases=("prefill",), max_context_len=0),
)
def prepare_lens(function: Any) -> Callable[..., None]:
    """The rows of each sequence; of requests without context, their tokens."""

    def launch(query_start_loc: Tensor, dcp_local_seq_lens: Tensor) -> None:
        dcp_local_seq_lens.copy_(function(query_start_loc.clone()))

    return launch
