"""Keys and values of several heads, written into caches of other layouts."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.reordered import in_groups, reordered
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_FILE = "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py"
_HEADS = 2
_HALVES = STEPS.having(
    min_tokens=1,
    all_but=("survives_large_ids",),  # a cache in another layout is a copy
    row_format=("bf16", "fp16", "fp32"),
    latent_dims=((16, 16), (48, 48), (512, 512)),
)
_STUBS: dict[str, Any] = {
    "is_quantized_kv_cache": lambda kind: False,
    "_is_supported_kv_cache_dtype": lambda kind: True,
    "current_platform": SimpleNamespace(is_rocm=lambda: False, is_xpu=lambda: False),
}


def _new(part: Tensor, count: int) -> Tensor:
    """Return the halves of new rows as the heads of keys or of values."""
    return in_groups(part[:count], 1, part.shape[1] // _HEADS)


def _caches(kv_cache: Tensor) -> list[Tensor]:
    """Return keys and values ``[num_blocks, block_size, num_heads, head_size]``, the halves of the rows."""
    return [in_groups(half, 2, half.shape[2] // _HEADS) for half in kv_cache.chunk(2, dim=2)]


def _packed(cache: Tensor) -> Tensor:
    """Return the cache with the elements of a head in groups of 16 bytes."""
    return in_groups(cache, 3, 16 // cache.element_size())


@ENGINE.adapts(_FILE, "triton_reshape_and_cache_flash", operation="cache_write", domain=_HALVES, **_STUBS)
def reshape_and_cache_hnd(function: Any) -> Callable[..., None]:
    """Caches of heads that hold their tokens, seen as tokens that hold their heads."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))  # vLLM has as many rows as slots
        keys, values = _caches(kv_cache)
        scale = torch.ones(1, device=kv_c.device)
        with reordered(keys, (0, 2, 1, 3)) as k, reordered(values, (0, 2, 1, 3)) as v:
            new = _new(kv_c, count), _new(k_pe, count)
            seen = k.transpose(1, 2), v.transpose(1, 2)
            function(*new, *seen, slot_mapping[:count], "auto", scale, scale)

    return launch


@ENGINE.adapts(_FILE, "triton_reshape_and_cache_flash", operation="cache_write", domain=_HALVES, **_STUBS)
def reshape_and_cache_head_major(function: Any) -> Callable[..., None]:
    """Keys by head, group of elements and token; values by head, element and token."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))
        keys, values = _caches(kv_cache)
        scale = torch.ones(1, device=kv_c.device)
        with reordered(_packed(keys), (0, 2, 3, 1, 4)) as k, reordered(values, (0, 2, 3, 1)) as v:
            new = _new(kv_c, count), _new(k_pe, count)
            function(*new, k, v, slot_mapping[:count], "auto", scale, scale)

    return launch


@ENGINE.adapts(
    _FILE,
    "triton_reshape_and_cache_flash",
    operation="cache_write",
    domain=_HALVES.having(block_sizes=(8, 16, 64)),
    **_STUBS,
)
def reshape_and_cache_interleaved_values(function: Any) -> Callable[..., None]:
    """The same keys; values by head, group of tokens, element and token of the group."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))
        keys, values = _caches(kv_cache)
        scale, group = torch.ones(1, device=kv_c.device), 16 // kv_cache.element_size()
        grouped = in_groups(values, 1, group)
        with reordered(_packed(keys), (0, 2, 3, 1, 4)) as k, reordered(grouped, (0, 3, 1, 4, 2)) as v:
            new = _new(kv_c, count), _new(k_pe, count)
            function(*new, k, v, slot_mapping[:count], "auto", scale, scale, group)

    return launch
