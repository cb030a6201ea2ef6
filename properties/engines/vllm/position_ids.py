"""Positions, on the device and on the host."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.properties.engines.vllm.engine import DRAFTS, ENGINE, NEW, SMALL, STEPS, V2

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "prepare_pos_seq_lens",
    operation="position_ids",
    dialect=V2,
    domain=STEPS.having(padding="untouched"),
)
def prepare_pos_seq_lens(function: Any) -> Callable[..., None]:
    """Runner V2: positions; padding is left unwritten."""

    def launch(
        idx_mapping: Tensor,
        query_start_loc: Tensor,
        num_computed_tokens: Tensor,
        positions: Tensor,
        num_reqs_padded: int,
    ) -> None:
        seq_lens = torch.empty(num_reqs_padded, dtype=torch.int32, device=positions.device)
        function(idx_mapping, query_start_loc, num_computed_tokens, positions, seq_lens)

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu_model_runner.py",
    "GPUModelRunner._get_cumsum_and_arange",
    operation="position_ids",
    dialect="cumae",
    domain=NEW.having(phases=("prefill",), max_context_len=0),
)
def cumsum_and_arange(method: Any) -> Callable[..., None]:
    """Runner V1: positions in each query, on the host; sequences have no context here."""

    def launch(query_lens: Tensor, position_ids: Tensor) -> None:
        counts, positions = query_lens.cpu().numpy(), position_ids.cpu()
        method(SimpleNamespace(arange_np=np.arange(len(positions))), counts, positions.numpy())
        position_ids.copy_(positions)

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "eagle_step_slot_mapping_metadata_kernel",
    operation="position_ids",
    dialect=DRAFTS,
    domain=SMALL.having(phases=("decode",), max_query_len=1, empty_requests=False, padding="none"),
)
def eagle_step_positions(kernel: Any) -> Callable[..., None]:
    """The position of the next token of each request, from that of the last one."""

    def launch(
        previous_positions: Tensor,
        block_table: Tensor,
        num_reqs: int,
        num_computed_tokens: Tensor,
        block_size: int,
        positions: Tensor,
    ) -> None:
        kernel[(num_reqs,)](
            previous_positions,
            block_table,
            block_table.stride(0),
            num_computed_tokens.clone(),
            positions,
            torch.empty_like(previous_positions),
            block_size=block_size,
            max_model_len=2**30,
            n_blocks_per_req=block_table.shape[1],
            PAD_ID=-1,
            batch_size=num_reqs,
        )

    return launch
