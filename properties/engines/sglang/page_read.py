"""Keys and values of several heads, and keys of the indexer, gathered out of pages."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.read_rows import planes_of, rows_of
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_READ = STEPS.having(
    min_tokens=0,
    padding="none",
    rowless_requests=False,
    missing_blocks=False,
    max_block_id=2**12,
    max_context_len=1024,
    key_slack=(0, 1, 9),
)
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
    dialect=CUMAE,
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
        pages: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        block_size: int,
        num_heads: int,
        window: int,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        lens, sums = rows_of(seq_lens, window)
        count = min(int(sums[-1]), len(keys))
        if not count:
            return
        planes = planes_of(pages, keys, values, num_heads, block_size)
        owner = torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens)
        position = torch.arange(len(owner), device=lens.device) - (sums[1:] - seq_lens)[owner]
        slots = block_table[owner, position // block_size].long() * block_size + position % block_size
        dim, group = planes.new_keys.shape[2], 16 // pages.element_size()
        by_element = planes.keys.contiguous().view(-1, num_heads, dim // group, block_size, group)
        by_token = planes.values.contiguous().view(-1, num_heads, block_size // group, dim, group)
        found = function(by_element, by_token, slots)
        planes.new_keys[:count], planes.new_values[:count] = found[0][:count], found[1][:count]

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/kvcache/dsa_index_k_cache.py",
    "_get_k_and_s_triton",
    operation="page_read",
    dialect=CUMAE,
    domain=_READ.having(
        page_order=("NHD",),
        head_format=("bytes",),
        block_sizes=(_PAGE,),
        num_heads=(1,),
        head_dims=((_KEY_BYTES, _SCALE_BYTES),),
        window=(0,),
    ),
    **_STUBS,
)
def get_k_and_s(function: Any) -> Callable[..., None]:
    """Keys of the indexer and the scales behind those of a page, of all tokens of each sequence."""

    def launch(pages: Tensor, block_table: Tensor, seq_lens: Tensor, keys: Tensor, values: Tensor) -> None:
        count = int(seq_lens.sum())
        if count:
            sizes = (count, int(seq_lens.max()), _PAGE, _KEY_BYTES)
            found = function(pages.flatten(1), block_table[: len(seq_lens)].contiguous(), seq_lens, *sizes)
            keys[:count], values[:count] = (
                part.view(count, *rows.shape[1:]) for part, rows in zip(found, (keys, values), strict=True)
            )

    return launch
