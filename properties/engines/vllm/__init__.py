"""vLLM's metadata functions under its dialect, one operation a file."""

from cumae.properties.engines.vllm import (
    cache_layouts,
    cache_write,
    causal_windows,
    gather,
    grouped_topk,
    local_lens,
    page_indices,
    plans,
    position_ids,
    query_chunks,
    request_runs,
    sequence_layout,
    slot_mapping,
    sparse_schedule,
    topk_to_slots,
)
from cumae.properties.engines.vllm.engine import ENGINE

__all__ = [
    "ENGINE",
    "cache_layouts",
    "cache_write",
    "causal_windows",
    "gather",
    "grouped_topk",
    "local_lens",
    "page_indices",
    "plans",
    "position_ids",
    "query_chunks",
    "request_runs",
    "sequence_layout",
    "slot_mapping",
    "sparse_schedule",
    "topk_to_slots",
]
