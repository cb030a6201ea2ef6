"""Positions, first rows and running sums of a step."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.dialects import SGLANG
from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, STEPS, longest_query

Tensor = torch.Tensor
_INPUTS = "lmdeploy/pytorch/model_inputs.py"


def _inputs(query_lens: Tensor, context_lens: Tensor, num_tokens: int, longest: int) -> SimpleNamespace:
    """Return a stand-in for the inputs of the model."""
    return SimpleNamespace(
        seq_length=query_lens,
        history_lengths=context_lens,
        max_q_seqlen=longest,
        target_position_ids=None,
        input_ids=torch.empty((1, num_tokens), device=query_lens.device),
    )


@ENGINE.adapts(
    _INPUTS,
    "StepContext.get_mask_and_position_ids",
    operation="position_ids",
    dialect=NAMES,
    domain=STEPS.having(max_requests=256, max_query_len=2**13),
)
def get_position_ids(method: Any) -> Callable[..., Tensor]:
    """Positions of a step, through a mask as wide as its longest query."""

    def launch(query_lens: Tensor, context_lens: Tensor, num_tokens: int, max_q_seqlen: int) -> Tensor:
        _, found = method(_inputs(query_lens, context_lens, num_tokens, max_q_seqlen))
        positions: Tensor = found.flatten().clone()
        return positions

    return launch


@ENGINE.adapts(
    _INPUTS,
    "StepContext._get_q_start_loc",
    operation="sequence_layout",
    dialect=SGLANG.extend(max_q_seqlen=longest_query, num_tokens=lambda case: case.batch.num_tokens),
    domain=STEPS,
)
def get_q_start_loc(method: Any) -> Callable[..., dict[str, Tensor]]:
    """First rows of a step's sequences, without a sum where all have the same length."""

    def launch(extend_seq_lens: Tensor, num_tokens: int, max_q_seqlen: int) -> dict[str, Tensor]:
        starts = method(_inputs(extend_seq_lens.long(), extend_seq_lens, num_tokens, max_q_seqlen))
        return {"extend_start_loc": starts.int()}

    return launch


@ENGINE.adapts(
    "lmdeploy/pytorch/backends/cuda/step_metadata.py",
    "CudaSequenceMetadata.from_step_context",
    operation="sequence_layout",
    dialect=NAMES,
    domain=STEPS,
)
def cuda_sequence_metadata(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sums of new tokens and of all tokens."""

    def launch(query_lens: Tensor, seq_lens: Tensor) -> dict[str, Tensor]:
        step = SimpleNamespace(
            q_seqlens=query_lens,
            kv_seqlens=seq_lens,
            is_decoding=True,
            block_offsets=query_lens,
            q_start_loc=None,
            max_kv_seqlen=None,
        )
        found = method.__func__(SimpleNamespace, step)
        return {"cu_seqlens_q": found.cu_seqlens_q, "cu_seqlens_k": found.cu_seqlens_k}

    return launch


@ENGINE.adapts(
    "lmdeploy/pytorch/kernels/cuda/step_metadata/fill_dsa_indexer_metadata.py",
    "fill_dsa_indexer_metadata",
    operation="sparse_schedule",
    dialect=NAMES,
    domain=STEPS.having(
        phases=("decode",), max_context_len=120, max_query_len=8, split_size=(1,), topk=(128,)
    ),
)
def dsa_indexer_lens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The keys that each drafted token sees, as its number of splits of one key; fewer than topk here."""

    def launch(
        query_lens: Tensor,
        seq_lens: Tensor,
        cu_seqlens_q: Tensor,
        block_table: Tensor,
        num_tokens: int,
        max_q_seqlen: int,
    ) -> dict[str, Tensor]:
        lens = torch.empty(num_tokens, dtype=torch.int32, device=query_lens.device)
        step = (query_lens, seq_lens, cu_seqlens_q, block_table[: len(query_lens)])
        function(*step, lens, None, num_tokens, max(max_q_seqlen, 2))
        return {"num_splits": lens}

    return launch
