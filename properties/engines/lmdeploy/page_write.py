"""Keys and values of several heads, written into paged caches."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, POLICY, STEPS
from cumae.properties.engines.read_rows import FP8

Tensor = torch.Tensor
_FILE = "lmdeploy/pytorch/kernels/cuda/fill_kv_cache.py"
_HEADS = STEPS.having(
    max_requests=128,
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
    QuantPolicy=POLICY,
)
def fill_kv_cache_of_heads(function: Any) -> Callable[..., None]:
    """Two caches of tokens that hold their heads, written by block table."""

    return _filling(function, "bshd")


@ENGINE.adapts(
    _FILE,
    "fill_kv_cache",
    operation="page_write",
    dialect=NAMES,
    domain=_HEADS.having(page_order=("HND",)),
    QuantPolicy=POLICY,
)
def fill_kv_cache_by_head(function: Any) -> Callable[..., None]:
    """Two caches of heads that hold their tokens."""
    return _filling(function, "bhsd")


@ENGINE.adapts(
    _FILE,
    "fill_kv_cache",
    operation="page_write",
    dialect=NAMES,
    domain=_HEADS.having(page_order=("NHD",), **FP8),
    QuantPolicy=POLICY,
)
def fill_kv_cache_of_heads_fp8(function: Any) -> Callable[..., None]:
    """Numbers divided by a scale, as bytes of fp8, in caches of tokens."""
    return _filling(function, "bshd")


@ENGINE.adapts(
    _FILE,
    "fill_kv_cache",
    operation="page_write",
    dialect=NAMES,
    domain=_HEADS.having(page_order=("HND",), **FP8),
    QuantPolicy=POLICY,
)
def fill_kv_cache_by_head_fp8(function: Any) -> Callable[..., None]:
    """The same in caches of heads."""
    return _filling(function, "bhsd")


def _filling(function: Any, layout: str) -> Callable[..., None]:
    """Return a launch into two caches of tokens that hold their heads, or of heads that hold their tokens."""

    def launch(
        new_keys: Tensor,
        new_values: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        q_start_loc: Tensor,
        max_q_seqlen: int,
        block_table: Tensor,
        block_size: int,
        key_scale: float,
        value_scale: float,
        key_cache: Tensor,
        value_cache: Tensor,
    ) -> None:
        caches = []
        for new, cache in ((new_keys, key_cache), (new_values, value_cache)):
            sizes = (block_size, new.shape[1]) if layout == "bshd" else (new.shape[1], block_size)
            of_fp8 = cache.view(torch.float8_e4m3fn) if cache.dtype is torch.uint8 else cache
            caches.append(of_fp8.view(-1, *sizes, new.shape[2]))
        lens = (q_start_loc, query_lens, seq_lens, max_q_seqlen, block_table[: len(query_lens)])
        scales = (torch.full((1,), scale, device=new_keys.device) for scale in (key_scale, value_scale))
        policy = POLICY.FP8 if key_cache.dtype is torch.uint8 else POLICY.NONE
        function(new_keys, new_values, *caches, *lens, *scales, quant_policy=policy, kv_layout=layout)

    return launch
