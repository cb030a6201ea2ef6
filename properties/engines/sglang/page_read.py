"""Keys and values of several heads, and keys of the indexer, gathered out of pages."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.known import Known
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_READ = STEPS.having(min_tokens=0, padding="none", max_context_len=1024)
_EQUAL = ((16, 16), (48, 48), (64, 64), (528, 528))
_STUBS: dict[str, Any] = {
    "is_fp8_fnuz": lambda: False,
    "aiter_can_use_preshuffle_paged_mqa": lambda: False,
    "is_hip": lambda: False,
    "is_xpu": lambda: False,
    "INDEXER_K_CACHE_PRESHUFFLE_TILE": 16,
}
_KEY_BYTES, _SCALE_BYTES, _PAGE = 128, 4, 64


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/shuffle_5d_cache.py",
    "launch_gather_shuffle_5d_to_linear",
    operation="page_read",
    dialect="sglang",
    domain=_READ.having(
        page_order=("shuffled",),
        head_format=("bf16", "fp16", "fp32", "bytes"),
        block_sizes=(8, 16, 64),
        head_dims=_EQUAL,
    ),
)
def gather_shuffled(function: Any) -> Callable[..., None]:
    """Keys and values read back from the layouts of AITER, by slot."""

    def launch(
        k_buffer: Tensor,
        v_buffer: Tensor,
        page_table: Tensor,
        cache_seqlens_int32: Tensor,
        page_size: int,
        head_num: int,
        key_out: Tensor,
        value_out: Tensor,
    ) -> None:
        count = len(key_out)
        if not count:
            return
        lens = cache_seqlens_int32.long()
        owner = torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens)
        position = torch.arange(count, device=lens.device) - (lens.cumsum(0) - lens)[owner]
        slots = page_table[owner, position // page_size].long() * page_size + position % page_size
        dim, group = key_out[0].numel() // head_num, 16 // key_out.element_size()
        by_element = k_buffer.view(-1, head_num, dim // group, page_size, group)
        by_token = v_buffer.view(-1, head_num, page_size // group, dim, group)
        found = function(by_element, by_token, slots)
        for rows, part in zip((key_out, value_out), found, strict=True):
            rows.view(len(rows), *part.shape[1:]).copy_(part)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/dsa_index_k_cache.py",
    "_get_k_and_s_triton",
    operation="page_read",
    dialect="sglang",
    domain=_READ.having(
        page_order=("NHD",),
        head_format=("bytes",),
        block_sizes=(_PAGE,),
        num_heads=(1,),
        head_dims=((_KEY_BYTES, _SCALE_BYTES),),
    ),
    known=Known(
        "sglang-get_k_and_s",
        "a page times its bytes is of 32 bits: it wraps from page 254,201 of 8,448 bytes on",
        {"all_but": ("survives_large_ids",)},
    ),
    **_STUBS,
)
def get_k_and_s(function: Any) -> Callable[..., None]:
    """Keys of the indexer and the scales behind those of a page, of all tokens of each sequence."""

    def launch(
        index_k_with_scale_buffer: Tensor,
        page_table: Tensor,
        cache_seqlens_int32: Tensor,
        key_out: Tensor,
        value_out: Tensor,
    ) -> None:
        count = len(key_out)
        if count:
            sizes = (count, int(cache_seqlens_int32.max()), _PAGE, _KEY_BYTES)
            where = (page_table.contiguous(), cache_seqlens_int32)
            found = function(index_k_with_scale_buffer.flatten(1), *where, *sizes)
            for rows, part in zip((key_out, value_out), found, strict=True):
                rows.copy_(part.view(rows.shape))

    return launch
