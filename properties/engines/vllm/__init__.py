"""vLLM's metadata functions under its dialect, one operation a file."""

from cumae.properties.engines.vllm import (
    block_tables,
    cache_groups,
    cache_write,
    causal_windows,
    drafts,
    flat_decodes,
    gather,
    grouped_topk,
    local_lens,
    page_indices,
    paged_kv,
    position_ids,
    sequence_chunks,
    sequence_layout,
    slot_mapping,
    sparse_schedule,
    topk_to_slots,
)
from cumae.properties.engines.vllm.engine import ENGINE

__all__ = [
    "ENGINE",
    "block_tables",
    "cache_groups",
    "cache_write",
    "causal_windows",
    "drafts",
    "flat_decodes",
    "gather",
    "grouped_topk",
    "local_lens",
    "page_indices",
    "paged_kv",
    "position_ids",
    "sequence_chunks",
    "sequence_layout",
    "slot_mapping",
    "sparse_schedule",
    "topk_to_slots",
]
