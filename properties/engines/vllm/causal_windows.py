"""Windows of the sparse indexer."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.cases.domain import Domain
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/indexer.py",
    "BuildPrefillChunkMetadataKernel",
    operation="causal_windows",
    domain=Domain(max_requests=1024, captured=False),
)
def build_prefill_chunk_metadata(kind: Callable[[], Any]) -> Callable[..., None]:
    """Windows of the prefill chunk of the sparse indexer, compressed and by rank."""
    kernel = kind()

    def launch(
        prefill_query_start_loc: Tensor,
        uncompressed_seq_lens: Tensor,
        cu_seq_lens: Tensor,
        local_cu_seq_lens: Tensor,
        num_prefills: int,
        num_prefill_tokens: int,
        compress_ratio: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        cu_seqlen_ks: Tensor,
        cu_seqlen_ke: Tensor,
    ) -> None:
        if num_prefills:
            kernel(
                prefill_query_start_loc,
                uncompressed_seq_lens,
                cu_seq_lens,
                local_cu_seq_lens,
                torch.empty(int(cu_seq_lens[-1]), dtype=torch.int32, device=cu_seq_lens.device),
                cu_seqlen_ks,
                cu_seqlen_ke,
                0,
                num_prefill_tokens,
                dcp_rank,
                dcp_world_size,
                cp_kv_cache_interleave_size,
                num_reqs=num_prefills,
                COMPRESS_RATIO=compress_ratio,
            )

    return launch
