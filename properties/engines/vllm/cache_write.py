"""Rows written into a cache."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py",
    "triton_reshape_and_cache_flash_diffkv",
    operation="cache_write",
    domain=STEPS.having(
        min_tokens=1,
        row_format=("bf16", "fp16", "fp32"),
        latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)),
    ),
    is_quantized_kv_cache=lambda kind: False,
)
def reshape_and_cache_diffkv(function: Any) -> Callable[..., None]:
    """Keys and values of different widths in one cache; here, the two parts of a latent row."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))  # vLLM has as many rows as slots
        parts = kv_c[:count].unsqueeze(1), k_pe[:count].view(count, 1, -1)
        scale = torch.ones(1, device=kv_c.device)
        function(*parts, kv_cache.unsqueeze(2), slot_mapping[:count], "auto", scale, scale)

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py",
    "triton_reshape_and_cache_flash",
    operation="cache_write",
    domain=STEPS.having(
        min_tokens=1,
        row_format=("bf16", "fp16", "fp32"),
        latent_dims=((1, 1), (8, 8), (33, 33), (256, 256)),
    ),
    is_quantized_kv_cache=lambda kind: False,
    _is_supported_kv_cache_dtype=lambda kind: True,
    current_platform=SimpleNamespace(is_rocm=lambda: False, is_xpu=lambda: False),
)
def reshape_and_cache_flash(function: Any) -> Callable[..., None]:
    """Keys and values of one width in two caches; here, the halves of a latent row."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))  # vLLM has as many rows as slots
        new = [part[:count].view(count, 1, -1) for part in (kv_c, k_pe)]
        caches = kv_cache.unsqueeze(2).chunk(2, dim=3)
        scale = torch.ones(1, device=kv_c.device)
        function(*new, *caches, slot_mapping[:count], "auto", scale, scale)

    return launch
