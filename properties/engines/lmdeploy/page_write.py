"""Keys and values of several heads, written into paged caches."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, STEPS

Tensor = torch.Tensor
_FILE = "lmdeploy/pytorch/kernels/cuda/fill_kv_cache.py"
_POLICY = SimpleNamespace(NONE=0, INT4=4, INT8=8, FP8=16, FP8_E5M2=17, TURBO_QUANT=42)
_HEADS = STEPS.having(
    max_requests=128,
    max_block_id=2**12,
    block_sizes=(16, 32, 64, 128),
    head_format=("bf16", "fp16", "fp32"),
    world=(1,),
)
"""LMDeploy's blocks have a power of two of tokens."""


@ENGINE.adapts(
    _FILE,
    "fill_kv_cache",
    operation="page_write",
    dialect=NAMES,
    domain=_HEADS.having(page_order=("NHD",)),
    QuantPolicy=_POLICY,
)
def fill_kv_cache_of_heads(function: Any) -> Callable[..., None]:
    """Two caches of tokens that hold their heads, written by block table."""

    def launch(
        new_keys: Tensor,
        new_values: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        q_start_loc: Tensor,
        max_q_seqlen: int,
        block_table: Tensor,
        block_size: int,
        key_cache: Tensor,
        value_cache: Tensor,
    ) -> None:
        keys = key_cache.view(-1, block_size, *new_keys.shape[1:])
        values = value_cache.view(-1, block_size, *new_values.shape[1:])
        lens = (q_start_loc, query_lens, seq_lens, max_q_seqlen)
        rest = (block_table[: len(query_lens)],)
        function(new_keys, new_values, keys, values, *lens, *rest, quant_policy=_POLICY.NONE)

    return launch


@ENGINE.adapts(
    _FILE,
    "fill_kv_cache",
    operation="page_write",
    dialect=NAMES,
    domain=_HEADS.having(page_order=("HND",)),
    QuantPolicy=_POLICY,
)
def fill_kv_cache_by_head(function: Any) -> Callable[..., None]:
    """Two caches of heads that hold their tokens."""

    def launch(
        new_keys: Tensor,
        new_values: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        q_start_loc: Tensor,
        max_q_seqlen: int,
        block_table: Tensor,
        block_size: int,
        key_cache: Tensor,
        value_cache: Tensor,
    ) -> None:
        heads = new_keys.shape[1]
        keys = key_cache.view(-1, heads, block_size, new_keys.shape[2])
        values = value_cache.view(-1, heads, block_size, new_values.shape[2])
        lens = (q_start_loc, query_lens, seq_lens, max_q_seqlen)
        rest = {"quant_policy": _POLICY.NONE, "kv_layout": "bhsd"}
        function(new_keys, new_values, keys, values, *lens, block_table[: len(query_lens)], **rest)

    return launch
