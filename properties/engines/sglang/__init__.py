"""SGLang's metadata functions under its dialect, by subject; router and cache writer under vLLM's names."""

from cumae.properties.engines.sglang import (
    allocator,
    cache_groups,
    cache_locs,
    cache_write,
    chunked_context,
    context_parallel,
    cuts,
    grouped_topk,
    indexer,
    kv_indices,
    listed_slots,
    page_tables,
    pages,
    position_ids,
    sequence_layout,
)
from cumae.properties.engines.sglang.engine import ENGINE

__all__ = [
    "ENGINE",
    "allocator",
    "cache_groups",
    "cache_locs",
    "cache_write",
    "chunked_context",
    "context_parallel",
    "cuts",
    "grouped_topk",
    "indexer",
    "kv_indices",
    "listed_slots",
    "page_tables",
    "pages",
    "position_ids",
    "sequence_layout",
]
