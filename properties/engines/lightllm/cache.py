"""Rows written into the pool of keys and values, and read back."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import CUMAE, Input
from cumae.properties.dialects.sglang.step import req_to_token
from cumae.properties.engines.known import Known
from cumae.properties.engines.lightllm.engine import ENGINE, NAMES, PREFILLS, first_rows, int32, seq_lens

Tensor = torch.Tensor
_ROWS = PREFILLS.having(
    world=(1,), row_format=("bf16", "fp16", "fp32"), latent_dims=((2, 1), (8, 4), (512, 64))
)
"""The kernels' rows have a power of two of elements in each part."""


def _wrapping(case: str) -> Known:
    """Return what is known of a writer whose slots are of 32 bits, as those of LightLLM's pool are."""
    told = "a slot times the row's stride is of 32 bits: it wraps where that passes 2^31"
    return Known(case, told, {"all_but": ("survives_large_ids",)})


@ENGINE.adapts(
    "lightllm/models/deepseek2/triton_kernel/destindex_copy_kv.py",
    "destindex_copy_kv",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS,
    known=_wrapping("lightllm-destindex_copy_latent"),
)
def destindex_copy_latent(function: Any) -> Callable[..., None]:
    """Latent rows written to their slots."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))  # LightLLM has as many rows as slots
        parts = [part[:count].unsqueeze(1) for part in (kv_c, k_pe)]
        rows, width = kv_cache.view(-1, 1, kv_cache.shape[-1]), kv_c.shape[1]
        function(*parts, slot_mapping[:count].int(), rows[:, :, :width], rows[:, :, width:])

    return launch


@ENGINE.adapts(
    "lightllm/common/basemodel/triton_kernel/destindex_copy_kv.py",
    "destindex_copy_kv",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS.having(latent_dims=((1, 0), (8, 8), (64, 0), (256, 256))),
    known=_wrapping("lightllm-destindex_copy_kv"),
)
def destindex_copy_kv(function: Any) -> Callable[..., None]:
    """Rows of one head written to their slots."""

    def launch(kv_c_and_k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c_and_k_pe))  # LightLLM has as many rows as slots
        new = kv_c_and_k_pe[:count].unsqueeze(1)
        function(new, slot_mapping[:count].int(), kv_cache.view(-1, 1, kv_cache.shape[-1]))

    return launch


@ENGINE.adapts(
    "lightllm/common/basemodel/triton_kernel/destindex_copy_kv.py",
    "destindex_copy_kv",
    operation="page_write",
    dialect="vllm",
    domain=PREFILLS.having(
        world=(1,),
        head_format=("bf16", "fp16", "fp32"),
        page_order=("NHD",),
        head_dims=((16, 16), (64, 64), (16, 4), (128, 4)),
    ),
    known=_wrapping("lightllm-destindex_copy_heads"),
)
def destindex_copy_heads(function: Any) -> Callable[..., None]:
    """Keys, then values, of several heads written to their slots."""

    def launch(
        key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        count = min(len(slot_mapping), len(key))  # LightLLM has as many rows as slots
        for new, cache in ((key, key_cache), (value, value_cache)):
            function(new[:count], slot_mapping[:count].int(), cache.view(-1, *new.shape[1:]))

    return launch


_CACHED = CUMAE.extend(
    b_req_idx=NAMES.inputs["req_pool_indices"],
    b_seq_len=seq_lens,
    b_kv_start_loc=lambda case: int32(first_rows(case, of="seq_len")),
    req_to_token_indexs=Input(req_to_token),
    kv_lora_rank=lambda case: case.options.rows.kv_lora_rank,
)


@ENGINE.adapts(
    "lightllm/models/deepseek2/triton_kernel/sample_kv.py",
    "sample_kv",
    operation="prefix_interleave",
    dialect=_CACHED,
    domain=_ROWS.having(min_tokens=0, max_query_len=0, key_slack=(0, 1, 9)),
    known=Known(
        "lightllm-sample_kv",
        "a slot times the row's stride is of 32 bits: it wraps from slot 3,728,271 of rows of 576 on",
        {"all_but": ("survives_large_ids",)},
    ),
)
def sample_kv(function: Any) -> Callable[..., None]:
    """Latent rows gathered from the pool, split into their parts; every row is cached here."""

    def launch(
        cache: Tensor,
        b_req_idx: Tensor,
        b_seq_len: Tensor,
        req_to_token_indexs: Tensor,
        b_kv_start_loc: Tensor,
        kv_lora_rank: int,
        keys: Tensor,
    ) -> None:
        parts = (keys[:, :kv_lora_rank], keys[:, kv_lora_rank:])
        rows = cache.view(-1, cache.shape[-1])
        if b_seq_len.max():
            function(rows, *parts, b_req_idx, b_seq_len, req_to_token_indexs, b_kv_start_loc)

    return launch
