"""Keys and values of several heads, and keys of the indexer, written into the pages of a cache."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.running.device import can_begin_early

Tensor = torch.Tensor
_FLASH = "sglang/kernels/ops/kvcache/cache_ops.py"
_POOL = "sglang/srt/mem_cache/memory_pool.py"
_EQUAL = ((3, 3), (16, 16), (48, 48), (64, 64), (528, 528))
_COPIED = STEPS.having(head_format=("bf16", "fp16", "fp32"))
_SLOTTED = _COPIED.having(padding="none", rowless_requests=False, missing_blocks=False, world=(1,))
"""Every token has a slot."""
_NO: dict[str, Any] = dict.fromkeys(("is_cuda", "is_npu", "is_cpu", "is_xpu", "is_hip"), lambda: False)
_NO |= dict.fromkeys(("is_fp8_fnuz", "cpu_has_amx_support", "is_gfx95_supported"), lambda: False)


def _count(slot_mapping: Tensor, key: Tensor) -> int:
    """Return how many rows have slots: SGLang has as many rows as slots."""
    return min(len(slot_mapping), len(key))


@ENGINE.adapts(
    _FLASH,
    "launch_reshape_and_cache_flash",
    operation="page_write",
    dialect="vllm",
    domain=_COPIED.having(page_order=("NHD",), head_dims=_EQUAL),
)
def reshape_and_cache_flash(function: Any) -> Callable[..., None]:
    """Keys and values in two caches, token by token."""

    def launch(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
    ) -> None:
        count, shape = _count(slot_mapping, key), (-1, block_size, *key.shape[1:])
        caches = key_cache.view(shape), value_cache.view(shape)
        function(key[:count], value[:count], *caches, slot_mapping[:count])

    return launch


@ENGINE.adapts(
    _FLASH,
    "launch_reshape_and_cache_flash",
    operation="page_write",
    dialect="vllm",
    domain=_COPIED.having(page_order=("HND",), head_dims=_EQUAL),
)
def reshape_and_cache_mapped(function: Any) -> Callable[..., None]:
    """The same in caches of heads that hold their tokens, through a second map from slot to slot."""

    def launch(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
    ) -> None:
        count, (_, heads, dim) = _count(slot_mapping, key), key.shape
        places = torch.arange(count, device=slot_mapping.device).flip(0)
        caches = (one.view(-1, heads, block_size, dim).transpose(1, 2) for one in (key_cache, value_cache))
        function(key[:count], value[:count], *caches, places, slot_mapping[:count].flip(0))

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/shuffle_5d_cache.py",
    "launch_reshape_and_cache_shuffle_5d",
    operation="page_write",
    dialect="vllm",
    domain=_COPIED.having(page_order=("shuffled",), block_sizes=(8, 16, 64), head_dims=_EQUAL[1:]),
)
def reshape_and_cache_shuffled(function: Any) -> Callable[..., None]:
    """Keys and values in the two layouts of AITER."""

    def launch(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
    ) -> None:
        count, (_, heads, dim) = _count(slot_mapping, key), key.shape
        group = 16 // key.element_size()
        keys = key_cache.view(-1, heads, dim // group, block_size, group)
        values = value_cache.view(-1, heads, block_size // group, dim, group)
        function(key[:count], value[:count], keys, values, slot_mapping[:count])

    return launch


@ENGINE.adapts(
    _POOL,
    "_set_kv_buffer_impl",
    operation="page_write",
    dialect="vllm",
    domain=_SLOTTED.having(page_order=("NHD",)),
    get_is_capture_mode=lambda: False,
    **_NO,
)
def set_kv_buffer(function: Any) -> Callable[..., None]:
    """Keys and values of any two widths in pools of tokens, in torch."""

    def launch(
        key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        count = _count(slot_mapping, key)
        keys, values = key_cache.view(-1, *key.shape[1:]), value_cache.view(-1, *value.shape[1:])
        widths = {"row_dim": key[0].numel(), "v_row_dim": value[0].numel()}
        rest = {"store_dtype": key.dtype, "device_module": torch.cpu, "size_limit": len(keys)}
        function(key[:count], value[:count], keys, values, slot_mapping[:count], **widths, **rest)

    return launch


@ENGINE.adapts(
    _POOL,
    "_set_kv_buffer_prefix_valid_impl",
    operation="page_write",
    dialect="vllm",
    domain=_SLOTTED.having(
        page_order=("NHD",),
        head_dims=_EQUAL,
        phases=("decode",),
        verify_steps=True,
        max_requests=16,
        max_query_len=8,
    ),
    **_NO,
)
def set_kv_buffer_prefix_valid(function: Any) -> Callable[..., None]:
    """Keys and values of verified drafts, all of which are accepted."""

    def launch(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        num_reqs: int,
        num_tokens: int,
    ) -> None:
        keys, values = key_cache.view(-1, *key.shape[1:]), value_cache.view(-1, *value.shape[1:])
        each = num_tokens // num_reqs
        slots = slot_mapping[:num_tokens].view(num_reqs, each)
        accepted = torch.full((num_reqs,), each, dtype=torch.int32, device=slots.device)
        new = key[:num_tokens], value[:num_tokens]
        function(*new, keys, values, slots, accepted, key[0].numel(), key.dtype)

    return launch


_PAGE = 64


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/dsa_index_k_cache.py",
    "_set_k_and_s_triton",
    operation="page_write",
    dialect="vllm",
    domain=_SLOTTED.having(
        block_sizes=(_PAGE,),
        head_format=("bytes",),
        num_heads=(1,),
        head_dims=((128, 4),),
        page_order=("NHD",),
    ),
    is_fp8_fnuz=lambda: False,
    aiter_can_use_preshuffle_paged_mqa=lambda: False,
    is_hip=lambda: False,
    is_xpu=lambda: False,
    INDEXER_K_CACHE_PRESHUFFLE_TILE=16,
)
def set_k_and_s(function: Any) -> Callable[..., None]:
    """Keys of the indexer, 128 bytes of fp8, and behind those of a page their scales of 4 bytes."""

    def launch(key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor) -> None:
        count = _count(slot_mapping, key)
        keys, scales = key[:count].view(count, 128), value[:count].view(count, 4)
        parts = keys.view(torch.float8_e4m3fn), scales.view(torch.float32)
        function(kv_cache.flatten(1), slot_mapping[:count], *parts, _PAGE)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/mla_buffer.py",
    "set_mla_kv_buffer_triton_fp8_quant",
    operation="page_write",
    dialect="vllm",
    domain=_COPIED.having(
        head_format=("fp8",),
        num_heads=(1,),
        head_dims=((48, 16), (128, 64), (512, 64)),
        page_order=("joined",),
        key_scale_thousandths=(1000,),
        value_scale_thousandths=(1000,),
    ),
    is_arch_support_pdl=can_begin_early,
)
def set_mla_kv_buffer_fp8(function: Any) -> Callable[..., None]:
    """Latent rows and their rotated part side by side, as bytes of fp8 without a scale."""

    def launch(key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, block_size: int) -> None:
        count, width = _count(slot_mapping, key), key.shape[2] + value.shape[2]
        rows, parts = kv_cache.view(-1, width), (key[:count].flatten(1), value[:count].flatten(1))
        function(rows, slot_mapping[:count], *parts, torch.float8_e4m3fn, reserved_skip_index=-1)

    return launch
