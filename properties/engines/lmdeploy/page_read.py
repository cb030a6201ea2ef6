"""Keys and values of several heads, gathered out of pages."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, POLICY, STEPS
from cumae.properties.engines.read_rows import FP8, planes_of

Tensor = torch.Tensor
_FILE = "lmdeploy/pytorch/kernels/cuda/flatten_kv_cache.py"
_READ = STEPS.having(
    max_requests=128,
    max_context_len=1024,
    min_tokens=0,
    empty_requests=True,
    block_sizes=(16, 32, 64, 128),
    window=(0,),
    key_slack=(0, 1, 9),
)
"""LMDeploy's blocks have a power of two of tokens, and it reads all keys."""
_COPIED = ("bf16", "fp16", "fp32")


def _gathering(function: Any, layout: str, gathered: str) -> Callable[..., None]:
    """Return a launch from a layout of the caches to a layout of the states."""

    def launch(
        pages: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        block_size: int,
        num_heads: int,
        head_format: str,
        key_scale: float,
        value_scale: float,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        count = int(seq_lens.sum())
        if not count:
            return
        planes = planes_of(pages, keys, values, num_heads, block_size)
        axes = (block_size, num_heads) if layout == "bshd" else (num_heads, block_size)
        caches = [one.view(len(one), *axes, -1) for one in (planes.keys, planes.values)]
        how: dict[str, Any] = {"quant_policy": POLICY.NONE}
        if head_format == "fp8":
            caches = [one.view(torch.float8_e4m3fn) for one in caches]
            scales = [torch.tensor([scale], device=pages.device) for scale in (key_scale, value_scale)]
            names = ("k_scales_zeros", "v_scales_zeros")
            how = {
                "quant_policy": POLICY.FP8,
                "out_dtype": keys.dtype,
                **dict(zip(names, scales, strict=True)),
            }
        how |= {"out_size": count, "kv_layout": layout, "flatten_kv_layout": gathered}
        found = function(*caches, seq_lens, block_table[: len(seq_lens)], **how)
        for part, rows in zip(found, (planes.new_keys, planes.new_values), strict=True):
            rows[:count] = part if gathered == "shd" else part.transpose(0, 1)

    return launch


@ENGINE.adapts(
    _FILE,
    "flatten_kv_cache",
    operation="page_read",
    dialect=NAMES,
    domain=_READ.having(page_order=("NHD",), head_format=_COPIED),
    QuantPolicy=POLICY,
)
def flatten_kv_cache(function: Any) -> Callable[..., None]:
    """Caches of tokens that hold their heads, into states of heads that hold their tokens."""
    return _gathering(function, "bshd", "hsd")


@ENGINE.adapts(
    _FILE,
    "flatten_kv_cache",
    operation="page_read",
    dialect=NAMES,
    domain=_READ.having(page_order=("HND",), head_format=_COPIED),
    QuantPolicy=POLICY,
)
def flatten_kv_cache_by_head(function: Any) -> Callable[..., None]:
    """Caches of heads that hold their tokens, into states of tokens."""
    return _gathering(function, "bhsd", "shd")


@ENGINE.adapts(
    _FILE,
    "flatten_kv_cache",
    operation="page_read",
    dialect=NAMES,
    domain=_READ.having(page_order=("NHD",), **FP8),
    QuantPolicy=POLICY,
)
def flatten_kv_cache_of_fp8(function: Any) -> Callable[..., None]:
    """Bytes with a scale of all keys and one of all values, into numbers."""
    return _gathering(function, "bshd", "shd")
