"""Keys and values gathered out of pages, and keys of the indexer with their scales."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.read_rows import FP8
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_FILE = "vllm/v1/attention/backends/rocm_aiter_fa.py"
_POWERS = ((1, 1), (8, 8), (16, 16), (64, 64), (128, 128))
_READ = STEPS.having(max_context_len=1024, head_dims=_POWERS)
"""The kernel reads a power of two of elements of each head."""
_COPIED = ("bf16", "fp16", "fp32")
_STUBS: dict[str, Any] = {"current_platform": SimpleNamespace(is_rocm=lambda: True)}


def _gathering(function: Any, layout: str) -> Callable[..., None]:
    """Return a launch. In shuffled pages only the strides between blocks of the views below are used."""

    def launch(
        key_cache: Tensor,
        value_cache: Tensor,
        key: Tensor,
        value: Tensor,
        block_table: Tensor,
        block_size: int,
        num_kv_heads: int,
        k_scale: Tensor,
        v_scale: Tensor,
        cu_seqlens_kv: Tensor,
        token_to_batch: Tensor,
        seq_starts: Tensor,
        kv_cache_dtype: str,
        total_tokens: int,
    ) -> None:
        if not total_tokens:
            return
        rows = [one.view(len(one), num_kv_heads, -1) for one in (key, value)]
        caches = [
            one.view(len(one), block_size, num_kv_heads, new.shape[2])
            for one, new in zip((key_cache, value_cache), rows, strict=True)
        ]
        if kv_cache_dtype == "fp8":
            caches = [one.view(torch.float8_e4m3fn) for one in caches]
        where = (block_table.contiguous(), k_scale, v_scale, cu_seqlens_kv, token_to_batch, seq_starts)
        function(*caches, *rows, *where, kv_cache_dtype == "fp8", layout, total_tokens)

    return launch


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect="vllm",
    domain=_READ.having(page_order=("NHD",), head_format=_COPIED),
    **_STUBS,
)
def cp_mha_gather_cache(function: Any) -> Callable[..., None]:
    """Keys and values of a chunk of each sequence."""
    return _gathering(function, "NHD")


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect="vllm",
    domain=_READ.having(page_order=("NHD",), **FP8),
    **_STUBS,
)
def cp_mha_gather_cache_of_fp8(function: Any) -> Callable[..., None]:
    """The same from bytes with a scale of all keys and one of all values."""
    return _gathering(function, "NHD")


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect="vllm",
    domain=_READ.having(
        page_order=("shuffled",), head_format=_COPIED, block_sizes=(8, 16, 64), head_dims=_POWERS[2:]
    ),
    **_STUBS,
)
def cp_mha_gather_cache_shuffled(function: Any) -> Callable[..., None]:
    """The same from the two layouts of AITER."""
    return _gathering(function, "SHUFFLE")


@ENGINE.adapts(
    "vllm/v1/attention/ops/rocm_aiter_mla_sparse.py",
    "cp_gather_indexer_k_quant_cache_triton",
    operation="page_read",
    dialect="vllm",
    domain=_READ.having(page_order=("NHD",), head_format=("bytes",), num_heads=(1,), head_dims=((128, 4),)),
    _ON_GFX950=False,
    FP8_DTYPE=torch.float8_e4m3fn,
)
def cp_gather_indexer_k(function: Any) -> Callable[..., None]:
    """Keys of the indexer, 128 bytes of fp8, and behind those of a page their scales of 4 bytes."""

    def launch(
        kv_cache: Tensor,
        block_table: Tensor,
        block_size: int,
        cu_seqlens_kv: Tensor,
        token_to_batch: Tensor,
        total_tokens: int,
        key: Tensor,
        value: Tensor,
    ) -> None:
        if not total_tokens:
            return
        cache = kv_cache.flatten(1).view(len(kv_cache), block_size, 132)
        codes, scales = key[:total_tokens].view(-1, 128), value[:total_tokens].view(-1, 4)
        where = (block_table.contiguous(), cu_seqlens_kv, token_to_batch)
        function(cache, codes.view(torch.float8_e4m3fn), scales, *where, cache_layout="NORMAL")

    return launch
