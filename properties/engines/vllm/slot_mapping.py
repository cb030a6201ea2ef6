"""Slots of a step, of cache groups, of drafts and of compressed states."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import VLLM
from cumae.properties.engines.vllm.engine import DRAFTS, ENGINE, MAPPED, NEW, SMALL, STEPS

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/worker/block_table.py", "ComputeSlotMappingKernel", operation="slot_mapping", domain=STEPS
)
def compute_slot_mapping(kind: Callable[[], Any]) -> Callable[..., None]:
    """Runner V1: slots of a step, padding included."""
    kernel = kind()

    def launch(
        num_reqs: int,
        num_tokens: int,
        query_start_loc: Tensor,
        positions: Tensor,
        block_table: Tensor,
        block_size: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel(
            num_reqs,
            num_tokens,
            slot_mapping.numel(),
            query_start_loc,
            positions,
            block_table,
            block_table.stride(0),
            slot_mapping,
            block_size,
            dcp_world_size,
            dcp_rank,
            cp_kv_cache_interleave_size,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/block_table.py",
    "_compute_slot_mappings_kernel",
    operation="slot_mapping",
    dialect=MAPPED,
    domain=SMALL,
)
def compute_slot_mappings_of_groups(kernel: Any) -> Callable[..., None]:
    """Runner V2: slots of the second of two cache groups; their tables are passed as addresses."""

    def launch(
        idx_mapping: Tensor,
        num_reqs: int,
        query_start_loc: Tensor,
        positions: Tensor,
        state_table: Tensor,
        block_size: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        slot_mapping: Tensor,
    ) -> None:
        def on_device(values: list[Any], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=positions.device)

        slots = torch.empty((2, slot_mapping.numel()), dtype=torch.int64, device=positions.device)
        kernel[(2, num_reqs + 1)](
            slot_mapping.numel(),
            idx_mapping,
            query_start_loc,
            positions,
            on_device([state_table.data_ptr()] * 2, torch.uint64),
            on_device([state_table.stride(0)] * 2, torch.int64),
            on_device([2 * block_size, block_size], torch.int32),
            on_device([False, True], torch.bool),
            on_device([False, True], torch.bool),
            slots,
            slots.stride(0),
            dcp_rank,
            CP_SIZE=dcp_world_size,
            CP_INTERLEAVE=cp_kv_cache_interleave_size,
            PAD_ID=-1,
            TRITON_BLOCK_SIZE=1024,
        )
        slot_mapping.copy_(slots[1])

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "eagle_step_slot_mapping_metadata_kernel",
    operation="slot_mapping",
    dialect=DRAFTS,
    domain=SMALL.having(phases=("decode",), max_query_len=1, empty_requests=False),
)
def eagle_step_slots(kernel: Any) -> Callable[..., None]:
    """The slot of the next token of each request, from the position of the last one."""

    def launch(
        previous_positions: Tensor,
        block_table: Tensor,
        num_reqs: int,
        num_computed_tokens: Tensor,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(slot_mapping.numel(),)](
            previous_positions,
            block_table,
            block_table.stride(0),
            num_computed_tokens.clone(),
            torch.empty_like(previous_positions),
            slot_mapping,
            block_size=block_size,
            max_model_len=2**30,
            n_blocks_per_req=block_table.shape[1],
            PAD_ID=-1,
            batch_size=num_reqs,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py", "compute_new_slot_mapping", operation="slot_mapping", domain=NEW
)
def compute_new_slot_mapping(function: Any) -> Callable[..., Tensor]:
    """Slots of extended queries; here none is extended or rejected."""

    def launch(
        query_start_loc: Tensor,
        block_table: Tensor,
        num_reqs: int,
        positions: Tensor,
        num_tokens: int,
        block_size: int,
    ) -> Tensor:
        lens = query_start_loc[1:] - query_start_loc[:-1]
        step = SimpleNamespace(
            block_table_tensor=block_table[:num_reqs],
            query_start_loc=query_start_loc,
            naive_query_lens=lambda: lens,
        )
        rejected = torch.zeros(num_tokens, dtype=torch.bool, device=positions.device)
        slots: Tensor = function(step, positions[:num_tokens], rejected, block_size, 0, 2**30)
        return slots

    return launch


def _rows_of_tokens(case: Case) -> Any:
    """Return slots that are not -1, so that no token is replayed."""
    return np.arange(case.batch.num_tokens, dtype=np.int64)


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/compressor_utils.py",
    "CompressedSlotMappingKernel.kernel",
    operation="slot_mapping",
    dialect=VLLM.extend(own_slots=_rows_of_tokens),
    domain=NEW.having(large_slots=True),
)
def compressed_slots(kernel: Any) -> Callable[..., None]:
    """Slots of compressed states; here one for each token."""

    def launch(
        own_slots: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        block_size: int,
        num_reqs: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(num_reqs,)](
            slot_mapping,
            own_slots,
            query_start_loc,
            seq_lens,
            block_table,
            block_table.stride(0),
            block_size,
            1,
            1,
            COMPRESS_RATIO=1,
            PAD_ID=-1,
            TRITON_BLOCK_SIZE=1024,
        )

    return launch
