"""The share of a rank of decode context parallelism: lengths, rows and selected slots."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Request
from cumae.properties.dialects import VLLM
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.running.device import can_begin_early

Tensor = torch.Tensor
_UNPADDED = STEPS.having(padding="none")
_LAYOUT = "sglang/srt/layers/dcp/layout.py"
_PARALLEL = SimpleNamespace(attn_dcp_size=1, attn_dcp_rank=0)


@ENGINE.adapts(
    _LAYOUT,
    "get_dcp_lens",
    operation="local_lens",
    dialect="vllm",
    domain=_UNPADDED.having(min_tokens=0),
)
def get_dcp_lens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """In torch, for one rank."""

    def launch(seq_lens: Tensor, dcp_size: int, dcp_rank: int, cp_interleave: int) -> dict[str, Tensor]:
        lens = function(seq_lens, dcp_size, dcp_rank, interleave_size=cp_interleave)
        return {"dcp_local_seq_lens": lens.clone()}

    return launch


def _wide_slots(request: Request, case: Case) -> list[int]:
    """Return the slot of each position in pages of ``block_size * world`` slots, -1 without a page."""
    width = case.batch.tokens_per_block
    slots = []
    for position in range(request.seq_len):
        column = position // width
        page = request.block_ids[column] if column < len(request.block_ids) else -1
        slots.append(page * width + position % width if page >= 0 else -1)
    return slots


def _wide_locs(case: Case) -> Any:
    """Return the slot of each new token among those of all ranks."""
    found = [slot for r in case.batch.requests for slot in _wide_slots(r, case)[r.context_len :]]
    return np.array(found, dtype=np.int64)


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/mla_buffer.py",
    "set_mla_kv_buffer_dcp_sharded_triton",
    operation="cache_write",
    dialect=VLLM.extend(wide_locs=_wide_locs),
    domain=_UNPADDED.having(
        row_format=("bf16", "fp16", "fp32"),
        latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)),
        interleave=(1,),
        rowless_requests=False,
    ),
    current_platform=SimpleNamespace(capabilities=SimpleNamespace(supports_triton=True)),
    is_arch_support_pdl=can_begin_early,
    can_use_set_mla_kv_buffer=lambda *bytes_of_parts: False,
    get_parallel=lambda: _PARALLEL,
)
def set_mla_kv_buffer_of_rank(function: Any) -> Callable[..., None]:
    """Latent rows of a rank, found by slot; SGLang deals out single positions."""

    def launch(
        kv_c: Tensor, k_pe: Tensor, wide_locs: Tensor, dcp_size: int, dcp_rank: int, kv_cache: Tensor
    ) -> None:
        _PARALLEL.attn_dcp_size, _PARALLEL.attn_dcp_rank = dcp_size, dcp_rank
        count = min(len(wide_locs), len(kv_c))
        rows = kv_cache.view(-1, 1, kv_cache.shape[-1])
        if rows.numel():  # a real pool has rows
            function(rows, wide_locs[:count], kv_c[:count], k_pe[:count], reserved_skip_index=-1)

    return launch


def wide_table(case: Case) -> Any:
    """Return a row for each request: the slot of each position among those of all ranks."""
    rows = [_wide_slots(request, case) for request in case.batch.requests]
    width = max(map(len, rows))
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int32)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "transform_index_page_table_dcp",
    operation="compact_topk_slots",
    dialect=VLLM.extend(wide_table=wide_table),
    domain=_UNPADDED.having(interleave=(1,), select_beyond=(False,), rowless_requests=False),
)
def transform_index_of_rank(function: Any) -> Callable[..., Any]:
    """Selected slots of a rank, the valid ones in front, and their number."""

    def launch(
        wide_table: Tensor, req_id: Tensor, token_indices: Tensor, dcp_size: int, dcp_rank: int
    ) -> Any:
        slots = wide_table[req_id.unsqueeze(1), token_indices.clamp(min=0)]
        return function(slots.masked_fill(token_indices < 0, -1), dcp_size, dcp_rank)

    return launch


_SELECTED = _UNPADDED.having(
    select_beyond=(False,), prefill_workspace=(False,), rowless_requests=False, missing_blocks=False
)


def _slots_of_rank(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Return the function with its positions on a rank looked up in the rank's blocks, -1 for none."""

    def launch(
        token_indices: Tensor,
        req_id: Tensor,
        block_table: Tensor,
        block_size: int,
        dcp_size: int,
        dcp_rank: int,
        cp_interleave: int,
    ) -> dict[str, Tensor]:
        local = function(token_indices, dcp_size, dcp_rank, interleave_size=cp_interleave)
        held = local.clamp(min=0)
        slots = block_table[req_id.unsqueeze(1), held // block_size] * block_size + held % block_size
        return {"out": slots.masked_fill(local < 0, -1)}

    return launch


@ENGINE.adapts(
    _LAYOUT,
    "localize_dcp_indices",
    operation="topk_to_slots",
    dialect="vllm",
    domain=_SELECTED,
)
def localize_dcp_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Selected positions of a rank, each in its place, looked up afterwards."""
    return _slots_of_rank(function)


@ENGINE.adapts(
    _LAYOUT,
    "remap_dcp_sparse_indices",
    operation="compact_topk_slots",
    dialect="vllm",
    # Other runs, such as 41, have fp32 quotients that are not exact on a GPU, where torch multiplies.
    domain=_SELECTED.having(world=(2, 4, 8), interleave=(1, 2, 4, 8, 16, 32, 64, 128)),
)
def remap_dcp_sparse_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Selected positions of a rank, the valid ones in front, looked up afterwards; of several ranks."""
    return _slots_of_rank(function)
