"""Keys and values of several heads, written into the pages of a cache."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.read_rows import FP8
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_FILE = "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py"
_EQUAL = ((16, 16), (48, 48), (64, 64), (528, 528))
_STEPS = STEPS.having(min_tokens=1, head_format=("bf16", "fp16", "fp32"))
_GROUPS = _STEPS.having(head_dims=_EQUAL)
_STUBS: dict[str, Any] = {
    "is_quantized_kv_cache": lambda kind: False,
    "_is_supported_kv_cache_dtype": lambda kind: True,
    "current_platform": SimpleNamespace(is_rocm=lambda: False, is_xpu=lambda: False),
}
_FP8_STUBS: dict[str, Any] = {
    "is_quantized_kv_cache": lambda kind: kind == "fp8",
    "current_platform": SimpleNamespace(
        is_rocm=lambda: False,
        is_xpu=lambda: False,
        has_device_capability=lambda least: True,
        fp8_dtype=lambda: torch.float8_e4m3fn,
    ),
}


def _count(slot_mapping: Tensor, key: Tensor) -> int:
    """Return how many rows have slots: vLLM has as many rows as slots."""
    return min(len(slot_mapping), len(key))


def _writing(function: Any, seen: Callable[..., tuple[Any, ...]]) -> Callable[..., None]:
    """Return a launch into two caches. ``seen``: the views that it takes of them, and what it takes last."""

    def launch(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
        kv_cache_dtype: str,
        k_scale: Tensor,
        v_scale: Tensor,
    ) -> None:
        count = _count(slot_mapping, key)
        keys, values, *last = seen(key, key_cache, value_cache, block_size)
        rest = (slot_mapping[:count], kv_cache_dtype, k_scale, v_scale, *last)
        function(key[:count], value[:count], keys, values, *rest)

    return launch


def _by_token(key: Tensor, keys: Tensor, values: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    shape = (-1, block_size, *key.shape[1:])
    return keys.view(shape), values.view(shape)


def _by_element(key: Tensor, keys: Tensor, values: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    (_, heads, dim), group = key.shape, 16 // keys.element_size()
    return keys.view(-1, heads, dim // group, block_size, group), values.view(-1, heads, dim, block_size)


def _by_group(key: Tensor, keys: Tensor, values: Tensor, block_size: int) -> tuple[Tensor, Tensor, int]:
    (_, heads, dim), group = key.shape, 16 // keys.element_size()
    keys = keys.view(-1, heads, dim // group, block_size, group)
    return keys, values.view(-1, heads, block_size // group, dim, group), group


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("NHD",), head_dims=((3, 3), (1, 1), *_EQUAL)),
    **_STUBS,
)
def reshape_and_cache_flash(function: Any) -> Callable[..., None]:
    """Two caches of tokens that hold their heads."""
    return _writing(function, _by_token)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("NHD",), head_dims=((3, 3), (1, 1), *_EQUAL), **FP8),
    **_FP8_STUBS,
)
def reshape_and_cache_flash_fp8(function: Any) -> Callable[..., None]:
    """The same with numbers divided by a scale, as bytes of fp8."""
    return _writing(function, _by_token)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("HND",), head_dims=((3, 3), *_EQUAL)),
    **_STUBS,
)
def reshape_and_cache_hnd(function: Any) -> Callable[..., None]:
    """One cache of heads that hold their tokens, keys before values, seen as tokens that hold their heads."""

    def launch(
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
        kv_cache_dtype: str,
        k_scale: Tensor,
        v_scale: Tensor,
    ) -> None:
        count, (_, heads, dim) = _count(slot_mapping, key), key.shape
        both = kv_cache.view(-1, 2, heads, block_size, dim).transpose(2, 3)
        rest = (slot_mapping[:count], kv_cache_dtype, k_scale, v_scale)
        function(key[:count], value[:count], both[:, 0], both[:, 1], *rest)

    return launch


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("packed",)),
    **_STUBS,
)
def reshape_and_cache_head_major(function: Any) -> Callable[..., None]:
    """Keys by head, group of elements and token; values by head, element and token."""
    return _writing(function, _by_element)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("shuffled",), block_sizes=(8, 16, 64)),
    **_STUBS,
)
def reshape_and_cache_interleaved_values(function: Any) -> Callable[..., None]:
    """The same keys; values by head, group of tokens, element and token of the group."""
    return _writing(function, _by_group)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("packed",), **FP8),
    **_FP8_STUBS,
)
def reshape_and_cache_head_major_fp8(function: Any) -> Callable[..., None]:
    """Keys and values by head, as bytes of fp8."""
    return _writing(function, _by_element)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="page_write",
    domain=_GROUPS.having(page_order=("shuffled",), block_sizes=(16, 64), **FP8),
    **_FP8_STUBS,
)
def reshape_and_cache_interleaved_values_fp8(function: Any) -> Callable[..., None]:
    """The same with values by head, group of tokens, element and token of the group."""
    return _writing(function, _by_group)


@ENGINE.adapts(
    "vllm/v1/attention/backends/rocm_aiter_fa.py",
    "reshape_and_cache_shuffle_triton",
    operation="page_write",
    domain=_GROUPS.having(page_order=("shuffled",), block_sizes=(8, 16, 64), head_dims=((16, 16), (64, 64))),
    current_platform=SimpleNamespace(is_rocm=lambda: True),
    is_quantized_kv_cache=lambda kind: False,
)
def reshape_and_cache_shuffle(function: Any) -> Callable[..., None]:
    """The same for AITER, of heads whose width is a power of two."""
    return _writing(function, _by_token)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash_diffkv",
    operation="page_write",
    domain=_STEPS.having(page_order=("joined",)),
    is_quantized_kv_cache=lambda kind: False,
)
def reshape_and_cache_diffkv(function: Any) -> Callable[..., None]:
    """Keys and values of different widths side by side in one cache."""
    return _writing_one(function)


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash_diffkv",
    operation="page_write",
    domain=_STEPS.having(page_order=("joined",), **FP8),
    **_FP8_STUBS,
)
def reshape_and_cache_diffkv_fp8(function: Any) -> Callable[..., None]:
    """The same with numbers divided by a scale, as bytes of fp8."""
    return _writing_one(function)


def _writing_one(function: Any) -> Callable[..., None]:
    """Return a launch into one cache of keys and values side by side."""

    def launch(
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        slot_mapping: Tensor,
        block_size: int,
        kv_cache_dtype: str,
        k_scale: Tensor,
        v_scale: Tensor,
    ) -> None:
        count, (_, heads, dim) = _count(slot_mapping, key), key.shape
        pages = kv_cache.view(-1, block_size, heads, dim + value.shape[2])
        rest = (slot_mapping[:count], kv_cache_dtype, k_scale, v_scale)
        function(key[:count], value[:count], pages, *rest)

    return launch
