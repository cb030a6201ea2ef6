"""Keys and values of several heads, and keys of the indexer, read from caches of other layouts."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.reordered import in_groups, reordered
from cumae.properties.engines.sglang.cache_write import cached_slots
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_SHUFFLED = "sglang/kernels/ops/kvcache/shuffle_5d_cache.py"
_INDEX = "sglang/kernels/ops/kvcache/dsa_index_k_cache.py"
_HEADS = 2
_COPIED = STEPS.having(all_but=("survives_large_ids",))
"""A cache in another layout is a copy, which a cache of gigabytes does not allow."""
_HALVES = _COPIED.having(row_format=("bf16", "fp16", "fp32"), latent_dims=((16, 16), (48, 48), (512, 512)))
_GROUPED = _HALVES.having(block_sizes=(8, 16, 64))
_READ = {
    "min_tokens": 0,
    "max_query_len": 0,
    "padding": "none",
    "key_scope": ("all",),
    "key_slack": (0, 1, 9),
}


def _of_heads(rows: Tensor) -> Tensor:
    """Return rows with their heads in a dimension of their own."""
    return in_groups(rows, rows.dim() - 1, rows.shape[-1] // _HEADS)


def _heads(rows: Tensor) -> list[Tensor]:
    """Return keys and values, the halves of rows, with their heads in a dimension of their own."""
    return [_of_heads(half) for half in rows.chunk(2, dim=-1)]


def _shuffled(rows: Tensor) -> tuple[Any, Any]:
    """Return keys by head, group of elements and token; values by head, group of tokens and element."""
    keys, values = _heads(rows)
    group = 16 // rows.element_size()
    by_element = reordered(in_groups(keys, 3, group), (0, 2, 3, 1, 4))
    return by_element, reordered(in_groups(values, 1, group), (0, 3, 1, 4, 2))


_LOCS = CUMAE.extend(locs=cached_slots)


@ENGINE.adapts(
    _SHUFFLED,
    "launch_gather_shuffle_5d_to_linear",
    operation="prefix_interleave",
    dialect=_LOCS,
    domain=_GROUPED.having(**_READ, max_requests=16, max_context_len=512),
)
def gather_shuffled(function: Any) -> Callable[..., None]:
    """Keys and values read back from the layouts of AITER; every row is cached here."""

    def launch(cache: Tensor, locs: Tensor, keys: Tensor) -> None:
        by_element, by_token = _shuffled(cache.clone())
        with by_element as held_keys, by_token as held_values:
            parts = function(held_keys, held_values, locs) if len(locs) else ()
        for half, part in zip(_heads(keys[: len(locs)]), parts, strict=False):
            half.copy_(part)

    return launch


_KEY_BYTES, _ROW_BYTES, _PAGE = 128, 132, 64
_STUBS: dict[str, Any] = {
    "is_fp8_fnuz": lambda: False,
    "aiter_can_use_preshuffle_paged_mqa": lambda: False,
    "is_hip": lambda: False,
    "is_xpu": lambda: False,
    "INDEXER_K_CACHE_PRESHUFFLE_TILE": 16,
}
_INDEX_KEYS = _COPIED.having(block_sizes=(_PAGE,), row_format=("bf16",), latent_dims=((64, 2),))
"""A row is 128 bytes of a key and 4 of its scale."""


def _in_planes(cache: Tensor) -> Tensor:
    """Return pages that hold the keys of all their tokens, then the scales."""
    rows = cache.view(torch.uint8)
    return torch.cat([rows[..., :_KEY_BYTES].flatten(1), rows[..., _KEY_BYTES:].flatten(1)], dim=1)


@ENGINE.adapts(
    _INDEX,
    "_get_k_and_s_triton",
    operation="prefix_interleave",
    dialect="cumae",
    domain=_INDEX_KEYS.having(**_READ),
    **_STUBS,
)
def get_k_and_s(function: Any) -> Callable[..., None]:
    """Keys and scales of the indexer read back; every row is cached here."""

    def launch(cache: Tensor, block_table: Tensor, context_lens: Tensor, keys: Tensor) -> None:
        count = int(context_lens.sum())
        if count == 0:
            return
        table = (block_table[: len(context_lens)].contiguous(), context_lens)
        sizes = (count, int(context_lens.max()), _PAGE, _KEY_BYTES)
        rows = keys.view(torch.uint8)
        rows[:count, :_KEY_BYTES], rows[:count, _KEY_BYTES:_ROW_BYTES] = function(
            _in_planes(cache), *table, *sizes
        )

    return launch
