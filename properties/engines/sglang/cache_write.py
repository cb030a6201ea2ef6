"""Latent rows written into a pool."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor


def _platform(*, has_triton: bool) -> SimpleNamespace:
    return SimpleNamespace(capabilities=SimpleNamespace(supports_triton=has_triton))


def _write_rows(function: Any) -> Callable[..., None]:
    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        rows = kv_cache.view(-1, 1, kv_cache.shape[-1])
        count = min(len(slot_mapping), len(kv_c))  # SGLang has as many rows as slots
        if rows.numel():  # a real pool has rows
            function(rows, slot_mapping[:count], kv_c[:count], k_pe[:count], reserved_skip_index=-1)

    return launch


_ROWS = STEPS.having(row_format=("bf16", "fp16", "fp32"), latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)))
_WRITER = "sglang/kernels/ops/kvcache/mla_buffer.py"


@ENGINE.adapts(
    _WRITER,
    "set_mla_kv_buffer_triton",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS,
    current_platform=_platform(has_triton=True),
    is_arch_support_pdl=lambda: False,
)
def set_mla_kv_buffer(function: Any) -> Callable[..., None]:
    """Latent rows written to their slots, by Triton."""
    return _write_rows(function)


@ENGINE.adapts(
    _WRITER,
    "set_mla_kv_buffer_triton",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS,
    current_platform=_platform(has_triton=False),
)
def set_mla_kv_buffer_in_torch(function: Any) -> Callable[..., None]:
    """Latent rows written to their slots, for platforms without Triton."""
    return _write_rows(function)
