"""Keys and values written with a scale of each token and head."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_MODES = SimpleNamespace(INT4_PER_TOKEN_HEAD=4, INT8_PER_TOKEN_HEAD=8)


@ENGINE.adapts(
    "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py",
    "triton_reshape_and_cache_flash_per_token_head_quant",
    operation="page_write",
    domain=STEPS.having(min_tokens=1, max_block_id=2**12, head_format=("int8_own",), page_order=("joined",)),
    KVQuantMode=_MODES,
    FP8_DTYPE=torch.float8_e4m3fn,
    get_fp8_min_max=lambda: (-448.0, 448.0),
    current_platform=SimpleNamespace(is_rocm=lambda: False, is_xpu=lambda: False),
)
def reshape_and_cache_int8(function: Any) -> Callable[..., None]:
    """Heads of int8, each with its fp32 scale behind it, as vLLM places the scales."""

    def launch(key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, block_size: int) -> None:
        count = min(len(slot_mapping), len(key))  # vLLM has as many rows as slots
        _, heads, dim = key.shape
        pages = kv_cache.view(-1, block_size, heads, dim + 4 + value.shape[2] + 4)
        parts = torch.split(pages, [dim, 4, value.shape[2], 4], dim=3)
        keys, key_scales, values, value_scales = parts
        caches = keys.view(torch.int8), values.view(torch.int8)
        scales = (one.view(torch.float32).squeeze(3) for one in (key_scales, value_scales))
        function(
            key[:count], value[:count], *caches, *scales, slot_mapping[:count], _MODES.INT8_PER_TOKEN_HEAD
        )

    return launch
