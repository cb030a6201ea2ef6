"""Cached keys and values gathered into rows."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import CUMAE
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

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
