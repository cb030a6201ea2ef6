"""Index functions of flash-linear-attention: positions without cached context, chunks with any.

They keep their last answers for arguments that are the same objects, as they say: each call gets new ones.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.cases.domain import MAX_LEN, Domain
from cumae.properties.dialects import CUMAE
from cumae.properties.dialects.chunk_lists import CHUNK_OUTPUTS
from cumae.properties.engines.adapter import Engine
from cumae.properties.engines.known import Known

Tensor = torch.Tensor
ENGINE = Engine("fla", "cumae", ("0.6.0",), "fla-core")
_INDEX = "fla/ops/utils/index.py"
_FRESH = Domain(
    min_requests=1,
    phases=("prefill",),
    max_context_len=0,
    padding="none",
    index_dtype=("int64",),
    captured=False,
)
_STARTS = CUMAE.extend(cu_seqlens="cu_seqlens_q")


@ENGINE.adapts(_INDEX, "prepare_position_ids", operation="position_ids", domain=_FRESH)
def prepare_position_ids(function: Any) -> Callable[..., Tensor]:
    """Positions in each sequence."""

    def launch(cu_seqlens_q: Tensor) -> Tensor:
        positions: Tensor = function(cu_seqlens_q.long())
        return positions

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_sequence_ids",
    operation="sequence_layout",
    dialect=_STARTS,
    domain=_FRESH,
    known=Known(
        "fla-prepare_sequence_ids",
        "behind an empty sequence, tokens are counted to the sequence before their own",
        {"empty_requests": False},
    ),
)
def prepare_sequence_ids(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The sequence of each token."""

    def launch(cu_seqlens: Tensor) -> dict[str, Tensor]:
        return {"token_to_request": function(cu_seqlens.long()).int()}

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_token_indices",
    operation="position_ids",
    domain=_FRESH,
)
def prepare_token_indices(function: Any) -> Callable[..., Tensor]:
    """Positions as the second column of (sequence, position)."""

    def launch(cu_seqlens_q: Tensor) -> Tensor:
        pairs: Tensor = function(cu_seqlens_q.long())
        return pairs[:, 1].contiguous()

    return launch


@ENGINE.adapts(_INDEX, "prepare_cu_seqlens_from_lens", operation="sequence_layout", domain=_FRESH)
def prepare_cu_seqlens_from_lens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of lengths."""

    def launch(query_lens: Tensor) -> dict[str, Tensor]:
        return {"cu_seqlens_q": function(query_lens[:], dtype=torch.int32)}

    return launch


@ENGINE.adapts(
    _INDEX, "prepare_lens", operation="local_lens", domain=_FRESH.having(min_requests=0, world=(1,))
)
def prepare_lens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The length of each sequence; one rank holds all of it."""

    def launch(cu_seqlens_q: Tensor) -> dict[str, Tensor]:
        return {"local_lens": function(cu_seqlens_q.long()).int()}

    return launch


def _mask(case: Case) -> Any:
    """Return a row for each sequence, true on its tokens."""
    lens = np.array([request.query_len for request in case.batch.requests])
    return np.arange(max(lens)) < lens[:, None]


@ENGINE.adapts(
    _INDEX,
    "prepare_cu_seqlens_from_mask",
    operation="sequence_layout",
    dialect=CUMAE.extend(mask=_mask),
    domain=_FRESH.having(max_requests=1024, max_query_len=4096),
)
def prepare_cu_seqlens_from_mask(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of lengths, from a padded mask."""

    def launch(mask: Tensor) -> dict[str, Tensor]:
        return {"cu_seqlens_q": function(mask[:])}

    return launch


_PAIRS = replace(CUMAE.extend(cu_seqlens="cu_seqlens_q"), outputs={"sequence_chunks": CHUNK_OUTPUTS})
_PADDED = _FRESH.having(padding="written", min_requests=0)


@ENGINE.adapts(
    _INDEX,
    "prepare_chunk_indices",
    operation="sequence_chunks",
    dialect=_PAIRS,
    domain=_PADDED.having(min_requests=1, phases=("prefill", "decode"), max_context_len=MAX_LEN),
)
def prepare_chunk_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """(sequence, chunk), from a tensor made for the call: results are cached by the tensor's identity."""

    def launch(cu_seqlens: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_indices": function(cu_seqlens.clone(), chunk_size)}

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_chunk_indices_static",
    operation="sequence_chunks",
    dialect=_STARTS,
    domain=_PADDED.having(phases=("prefill", "decode"), max_context_len=MAX_LEN),
)
def prepare_chunk_indices_static(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same in a list of fixed length, and the offsets of each sequence."""

    def launch(cu_seqlens: Tensor, chunk_size: int, max_sequence_chunks: int) -> dict[str, Tensor]:
        pairs, offsets = function(cu_seqlens, chunk_size, max_sequence_chunks)
        sequences, numbers = pairs.unbind(1)
        return {
            "chunk_sequences": sequences.contiguous(),
            "chunk_numbers": numbers.contiguous(),
            "chunk_offsets": offsets.long(),
        }

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_chunk_offsets",
    operation="sequence_chunks",
    dialect=_STARTS,
    domain=_PADDED.having(min_requests=1, phases=("prefill", "decode"), max_context_len=MAX_LEN),
)
def prepare_chunk_offsets(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of chunks; the function counts in the dtype of the sums."""

    def launch(cu_seqlens: Tensor, chunk_size: int) -> dict[str, Tensor]:
        return {"chunk_offsets": function(cu_seqlens.long(), chunk_size)}

    return launch


@ENGINE.adapts(
    _INDEX,
    "prepare_token_indices",
    operation="sequence_chunks",
    dialect=_PAIRS,
    domain=_PADDED.having(min_requests=1, empty_requests=False, padding="none", chunk_size=(1,)),
)
def prepare_token_indices_as_chunks(function: Any) -> Callable[..., dict[str, Tensor]]:
    """(sequence, position) of each token: chunks of one row, without empty sequences."""

    def launch(cu_seqlens: Tensor) -> dict[str, Tensor]:
        return {"chunk_indices": function(cu_seqlens.clone())}

    return launch
