"""Keys of a window gathered into rows."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import VLLM
from cumae.properties.engines.vllm.engine import ENGINE, SMALL

Tensor = torch.Tensor


_WINDOW = VLLM.extend(
    cache_blocks=lambda case: 1 + max(max((0, *request.block_ids)) for request in case.batch.requests)
)


@ENGINE.adapts(
    "vllm/models/dots3_note/nvidia/attention.py",
    "_gather_swa_kv_kernel",
    operation="window_slots",
    dialect=_WINDOW,
    domain=SMALL.having(
        padding="none",
        phases=("decode",),
        max_query_len=1,
        empty_requests=False,
        min_tokens=1,
        max_tokens=64,
        max_block_id=2**17,  # the launcher makes a whole cache
        window=(1, 2, 3, 4, 16, 127, 128, 129, 512),
    ),
)
def gather_swa_kv(kernel: Any) -> Callable[..., dict[str, Tensor]]:
    """The rows of each decode's window, gathered from a cache whose rows end with their own slot."""

    def launch(
        cache_blocks: int,
        block_size: int,
        block_table: Tensor,
        seq_lens: Tensor,
        window_size: int,
        index_width: int,
    ) -> dict[str, Tensor]:
        count, device = len(seq_lens), seq_lens.device
        rows = torch.arange(cache_blocks * block_size, dtype=torch.int32, device=device)
        cache = torch.stack([-rows, -rows, rows], 1).view(cache_blocks, block_size, 3)
        found = torch.full((count, index_width), -1, dtype=torch.int32, device=device)
        keys = torch.empty((count, window_size, 3), dtype=torch.int32, device=device)
        valid = torch.empty((count, window_size), dtype=torch.bool, device=device)
        strides = (*cache.stride(), block_table.stride(0), *keys.stride(), *valid.stride())
        sizes = {"GATHER_LEN": window_size, "KV_DIM": 3, "BLOCK_T": 256, "BLOCK_D": 2}
        arguments = (cache, block_table, seq_lens, keys, valid, valid, *strides)
        kernel[(count, -(-window_size // 256), 2)](*arguments, PAGE_SIZE=block_size, **sizes)
        found[:, :window_size] = keys[:, :, 2].masked_fill(~valid, -1)
        return {"swa_indices": found}

    return launch
