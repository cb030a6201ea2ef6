"""Slots of requests packed into one list; all tokens are new here, because vLLM packs from position 0."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, NEW

Tensor = torch.Tensor
_FRESH = NEW.having(phases=("prefill",), max_context_len=0)


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla.py",
    "_expand_page_indices_kernel",
    operation="slot_mapping",
    domain=_FRESH,
)
def expand_page_indices(kernel: Any) -> Callable[..., None]:
    """Blocks expanded to slots for AITER."""

    def launch(
        block_table: Tensor,
        query_start_loc: Tensor,
        num_reqs: int,
        max_query_len: int,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        table = (block_table, block_table.stride(0), block_table.stride(1))
        sizes = {"KERNEL_BLOCK_SIZE": block_size, "BLOCK_SIZE": 1024}
        tiles = -(-max_query_len // 1024)
        kernel[(num_reqs, tiles)](slot_mapping, *table, query_start_loc, None, **sizes)

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/flashinfer.py",
    "_copy_page_indices_kernel",
    operation="slot_mapping",
    domain=_FRESH.having(block_sizes=(1,)),
)
def copy_page_indices(kernel: Any) -> Callable[..., None]:
    """Blocks of each request for FlashInfer; with blocks of one token they are the slots."""

    def launch(block_table: Tensor, query_start_loc: Tensor, num_reqs: int, slot_mapping: Tensor) -> None:
        table = (block_table, block_table.stride(0))
        kernel[(num_reqs,)](slot_mapping, *table, query_start_loc, BLOCK_SIZE=1024)

    return launch
