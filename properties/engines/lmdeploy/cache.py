"""Rows written into paged caches."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, POLICY, STEPS

Tensor = torch.Tensor
_ROWS = STEPS.having(
    max_requests=128,
    block_sizes=(16, 32, 64, 128),
    row_format=("bf16", "fp16", "fp32"),
    latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)),
)
"""LMDeploy's blocks have a power of two of tokens."""
_PARTS = NAMES.extend(kv_lora_rank=lambda case: case.options.rows.kv_lora_rank)


@ENGINE.adapts(
    "lmdeploy/pytorch/kernels/cuda/fill_kv_cache.py",
    "fill_kv_cache",
    operation="cache_write",
    dialect=_PARTS,
    domain=_ROWS,
    QuantPolicy=POLICY,
)
def fill_kv_cache(function: Any) -> Callable[..., None]:
    """Keys and values of different widths written by block table; here, the parts of a latent row."""

    def launch(
        new_latents: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        q_start_loc: Tensor,
        max_q_seqlen: int,
        block_table: Tensor,
        kv_lora_rank: int,
        cache: Tensor,
    ) -> None:
        new, rows = new_latents.unsqueeze(1), cache.unsqueeze(2)
        parts = (new[..., :kv_lora_rank], new[..., kv_lora_rank:])
        caches = (rows[..., :kv_lora_rank], rows[..., kv_lora_rank:])
        lens = (q_start_loc, query_lens, seq_lens, max_q_seqlen)
        function(*parts, *caches, *lens, block_table[: len(query_lens)], quant_policy=POLICY.NONE)

    return launch
