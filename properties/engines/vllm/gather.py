"""Cached keys and values gathered into rows."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import CUMAE, VLLM
from cumae.properties.engines.vllm.engine import ENGINE, SMALL, STEPS

Tensor = torch.Tensor


def _requests_of_keys(case: Case) -> Any:
    """Return the request of each cached token."""
    requests = enumerate(case.batch.requests)
    return np.array([b for b, r in requests for _ in range(r.context_len)], dtype=np.int32)


@ENGINE.adapts(
    "vllm/v1/attention/backends/rocm_aiter_fa.py",
    "cp_mha_gather_cache",
    operation="prefix_interleave",
    dialect=CUMAE.extend(token_to_batch=_requests_of_keys),
    domain=STEPS.having(
        max_query_len=0,
        padding="none",
        rowless_requests=False,
        key_scope=("all",),
        key_slack=(0, 1, 9),
        row_format=("bf16", "fp16", "fp32"),
        latent_dims=((1, 1), (8, 8), (64, 64)),
    ),
    current_platform=SimpleNamespace(is_rocm=lambda: True),
)
def cp_mha_gather_cache(function: Any) -> Callable[..., None]:
    """Rows of cached context; keys and values are the same rows here, and every row is cached.

    The kernel reads a power of two of elements from each row.
    """

    def launch(
        cache: Tensor, block_table: Tensor, cu_seqlens_k: Tensor, token_to_batch: Tensor, keys: Tensor
    ) -> None:
        count, rows = len(token_to_batch), cache.unsqueeze(2)
        new = keys[:count].unsqueeze(1)
        starts = torch.zeros_like(cu_seqlens_k)
        scales = torch.ones(1, device=cache.device)
        caches = (rows, rows, new, torch.empty_like(new))
        where = (block_table.contiguous(), scales, scales, cu_seqlens_k, token_to_batch, starts)
        if count:
            function(*caches, *where, False, "NHD", count)

    return launch


_WINDOW = VLLM.extend(
    cache_blocks=lambda case: 1 + max(max((0, *request.block_ids)) for request in case.batch.requests)
)


@ENGINE.adapts(
    "vllm/models/dots3_note/nvidia/attention.py",
    "_gather_swa_kv_kernel",
    operation="window_slots",
    dialect=_WINDOW,
    domain=SMALL.having(
        padding="none",
        phases=("decode",),
        max_query_len=1,
        empty_requests=False,
        min_tokens=1,
        max_tokens=64,
        max_block_id=2**12,
        window=(1, 2, 3, 4, 16, 127, 128, 129, 512),
    ),
)
def gather_swa_kv(kernel: Any) -> Callable[..., dict[str, Tensor]]:
    """The rows of each decode's window, gathered from a cache whose rows end with their own slot."""

    def launch(
        cache_blocks: int,
        block_size: int,
        block_table: Tensor,
        seq_lens: Tensor,
        window_size: int,
        index_width: int,
    ) -> dict[str, Tensor]:
        count, device = len(seq_lens), seq_lens.device
        rows = torch.arange(cache_blocks * block_size, dtype=torch.int32, device=device)
        cache = torch.stack([-rows, -rows, rows], 1).view(cache_blocks, block_size, 3)
        found = torch.full((count, index_width), -1, dtype=torch.int32, device=device)
        keys = torch.empty((count, window_size, 3), dtype=torch.int32, device=device)
        valid = torch.empty((count, window_size), dtype=torch.bool, device=device)
        strides = (*cache.stride(), block_table.stride(0), *keys.stride(), *valid.stride())
        sizes = {"GATHER_LEN": window_size, "KV_DIM": 3, "BLOCK_T": 256, "BLOCK_D": 2}
        arguments = (cache, block_table, seq_lens, keys, valid, valid, *strides)
        kernel[(count, -(-window_size // 256), 2)](*arguments, PAGE_SIZE=block_size, **sizes)
        found[:, :window_size] = keys[:, :, 2].masked_fill(~valid, -1)
        return {"swa_indices": found}

    return launch
