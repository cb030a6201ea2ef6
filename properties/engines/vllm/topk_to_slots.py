"""Selected positions converted to slots, in place or with the valid ones in front."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import VLLM
from cumae.properties.engines.vllm.engine import ENGINE, SELECTED

Tensor = torch.Tensor


def _tile(topk: int) -> int:
    """Return vLLM's tile: the largest power of two that divides the columns, at most 128."""
    return min(topk & -topk, 128)


def _row_starts(case: Case) -> Any:
    """Return the first element of each token's row, and the end of the last."""
    return np.arange(case.num_tokens_padded + 1, dtype=np.int32) * case.options.selection.topk


_SPARSE = "vllm/v1/attention/backends/mla/sparse_utils.py"


@ENGINE.adapts(
    _SPARSE, "triton_convert_req_index_to_global_index", operation="topk_to_slots", domain=SELECTED
)
def convert_req_index_to_global_index(function: Any) -> Callable[..., Tensor]:
    """Selected positions, converted to slots or to rows of the prefill workspace."""

    def launch(
        req_id: Tensor,
        block_table: Tensor,
        token_indices: Tensor,
        BLOCK_SIZE: int,
        NUM_TOPK_TOKENS: int,
        HAS_PREFILL_WORKSPACE: bool,
        prefill_workspace_request_ids: Tensor | None,
        prefill_workspace_starts: Tensor | None,
    ) -> Tensor:
        found: Tensor = function(
            req_id,
            block_table,
            token_indices,
            BLOCK_SIZE=BLOCK_SIZE,
            NUM_TOPK_TOKENS=NUM_TOPK_TOKENS,
            BLOCK_N=_tile(NUM_TOPK_TOKENS),
            HAS_PREFILL_WORKSPACE=HAS_PREFILL_WORKSPACE,
            prefill_workspace_request_ids=prefill_workspace_request_ids,
            prefill_workspace_starts=prefill_workspace_starts,
        )
        return found

    return launch


@ENGINE.adapts(
    _SPARSE, "triton_convert_req_index_to_global_index", operation="compact_topk_slots", domain=SELECTED
)
def convert_and_count(function: Any) -> Callable[..., Any]:
    """Slots of selected positions, the valid ones of each row in front, and their number."""

    def launch(
        req_id: Tensor, block_table: Tensor, token_indices: Tensor, BLOCK_SIZE: int, NUM_TOPK_TOKENS: int
    ) -> Any:
        return function(
            req_id,
            block_table,
            token_indices,
            BLOCK_SIZE=BLOCK_SIZE,
            NUM_TOPK_TOKENS=NUM_TOPK_TOKENS,
            BLOCK_N=_tile(NUM_TOPK_TOKENS),
            return_valid_counts=True,
        )

    return launch


@ENGINE.adapts(
    _SPARSE, "triton_filter_and_convert_dcp_index", operation="compact_topk_slots", domain=SELECTED
)
def filter_and_convert_dcp_index(function: Any) -> Callable[..., Any]:
    """Slots of a rank, the valid ones in front, and their number."""
    return _of_rank(function, return_valid_counts=True)


@ENGINE.adapts(_SPARSE, "triton_filter_and_convert_dcp_index", operation="topk_to_slots", domain=SELECTED)
def filter_dcp_index_in_place(function: Any) -> Callable[..., Any]:
    """Slots of a rank in the place of their positions, -1 for those of other ranks."""
    return _of_rank(function, compact_valid_to_front=False)


def _of_rank(function: Any, **how: bool) -> Callable[..., Any]:
    def launch(
        req_id: Tensor,
        block_table: Tensor,
        token_indices: Tensor,
        dcp_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        BLOCK_SIZE: int,
        NUM_TOPK_TOKENS: int,
    ) -> Any:
        ranks = (dcp_size, dcp_rank, cp_kv_cache_interleave_size)
        sizes = {
            "BLOCK_SIZE": BLOCK_SIZE,
            "NUM_TOPK_TOKENS": NUM_TOPK_TOKENS,
            "BLOCK_N": _tile(NUM_TOPK_TOKENS),
        }
        return function(req_id, block_table, token_indices, *ranks, **sizes, **how)

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v4/common/ops/cache_utils.py",
    "compute_global_topk_indices_and_lens",
    operation="topk_to_slots",
    domain=SELECTED.having(select_beyond=(False,)),
)
def compute_global_topk_indices(function: Any) -> Callable[..., Tensor]:
    """DeepSeek V4: selected positions, converted to slots; positions past the table row are not promised."""

    def launch(token_indices: Tensor, req_id: Tensor, block_table: Tensor, BLOCK_SIZE: int) -> Tensor:
        is_valid = torch.ones(len(req_id), dtype=torch.bool, device=req_id.device)
        slots: Tensor = function(token_indices, req_id, block_table, BLOCK_SIZE, is_valid)[0]
        return slots

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v4/common/ops/cache_utils.py",
    "compute_global_topk_indices_and_lens",
    operation="compact_topk_slots",
    domain=SELECTED.having(select_beyond=(False,), missing_blocks=False),
)
def count_global_topk_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4: how many positions each token selects, from the same function."""

    def launch(
        token_indices: Tensor, req_id: Tensor, block_table: Tensor, BLOCK_SIZE: int
    ) -> dict[str, Tensor]:
        is_valid = torch.ones(len(req_id), dtype=torch.bool, device=req_id.device)
        return {"valid_counts": function(token_indices, req_id, block_table, BLOCK_SIZE, is_valid)[1]}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla_sparse.py",
    "triton_convert_req_index_to_global_index",
    operation="topk_to_slots",
    dialect=VLLM.extend(row_starts=_row_starts),
    domain=SELECTED.having(missing_blocks=False),
)
def convert_req_index_for_aiter(function: Any) -> Callable[..., Tensor]:
    """Selected positions, converted to slots in rows of any width; a slot of the null block means none."""

    def launch(
        req_id: Tensor,
        block_table: Tensor,
        token_indices: Tensor,
        row_starts: Tensor,
        BLOCK_SIZE: int,
        NUM_TOPK_TOKENS: int,
    ) -> Tensor:
        slots = torch.empty_like(token_indices)
        inputs = (req_id, block_table, token_indices, row_starts, slots)
        function(*inputs, BLOCK_SIZE, BLOCK_SIZE, NUM_TOPK_TOKENS, _tile(NUM_TOPK_TOKENS))
        return slots.masked_fill(slots == 0, -1)

    return launch
