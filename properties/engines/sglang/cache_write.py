"""Latent rows written into a pool, and read back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import CUMAE
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.running.device import can_begin_early

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
    is_arch_support_pdl=can_begin_early,
    can_use_set_mla_kv_buffer=lambda *bytes_of_parts: False,
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


@ENGINE.adapts(
    _WRITER,
    "set_mla_kv_buffer_kernel",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS.having(latent_dims=((2, 1), (33, 7), (64, 16)), max_tokens=256),
)
def set_mla_kv_buffer_in_blocks(kernel: Any) -> Callable[..., None]:
    """Latent rows written in several blocks of columns; the launcher takes one."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))
        rows, new = kv_cache.view(-1, kv_cache.shape[-1]), (kv_c, k_pe)
        sizes = (*(one.stride(0) for one in (rows, *new)), *(part.shape[1] for part in new))
        how = {"BLOCK": 32, "DCP_RANK": 0, "DCP_WORLD_SIZE": 1}
        if count and rows.numel():  # a real pool has rows
            kernel[(count, -(-rows.shape[1] // 32))](rows, *new, slot_mapping, -1, *sizes, **how)

    return launch


def cached_slots(case: Case) -> Any:
    """Return the slot of each cached token, request by request."""
    size, slots = case.batch.block_size, []
    for request in case.batch.requests:
        for position in range(request.context_len):
            slots.append(request.block_ids[position // size] * size + position % size)
    return np.array(slots, dtype=np.int64)


@ENGINE.adapts(
    _WRITER,
    "get_mla_kv_buffer_triton",
    operation="prefix_interleave",
    dialect=CUMAE.extend(locs=cached_slots, kv_lora_rank=lambda case: case.options.rows.kv_lora_rank),
    domain=_ROWS.having(
        min_tokens=0,
        max_query_len=0,
        latent_dims=((2, 1), (8, 4), (512, 64)),
        padding="none",
        key_scope=("all",),
        key_slack=(0, 1, 9),
    ),
)
def get_mla_kv_buffer(function: Any) -> Callable[..., None]:
    """Latent rows read from their slots, split into parts of powers of two; every row is cached here."""

    def launch(cache: Tensor, locs: Tensor, kv_lora_rank: int, keys: Tensor) -> None:
        parts = keys[: len(locs), :kv_lora_rank], keys[: len(locs), kv_lora_rank:]
        function(cache.view(-1, cache.shape[-1]), locs, *parts)

    return launch
