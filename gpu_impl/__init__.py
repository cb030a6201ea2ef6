"""Triton kernels that write the metadata of a serving engine, with thin torch launchers."""

from cumae.gpu_impl.cache_write import write_cache
from cumae.gpu_impl.causal_windows import (
    CausalWindows,
    causal_windows,
    write_causal_windows,
    write_packed_causal_windows,
)
from cumae.gpu_impl.chunked_context import ChunkedContext, chunked_context, write_chunked_context
from cumae.gpu_impl.compact_topk_slots import (
    CompactTopkSlots,
    compact_topk_slots,
    write_compact_topk_slots,
)
from cumae.gpu_impl.grouped_topk import GroupedTopk, grouped_topk, write_grouped_topk
from cumae.gpu_impl.latent_layout import latent_layout
from cumae.gpu_impl.metadata_cache import CachedSchedule, MetadataCache
from cumae.gpu_impl.persistent_buffers import KeyIndices, PersistentBuffers
from cumae.gpu_impl.position_ids import position_ids, write_position_ids
from cumae.gpu_impl.prefix_interleave import prefix_interleave, write_prefix_interleave
from cumae.gpu_impl.sequence_layout import SequenceLayout, sequence_layout, write_sequence_layout
from cumae.gpu_impl.slot_mapping import slot_mapping, write_slot_mapping
from cumae.gpu_impl.sparse_schedule import SparseSchedule, sparse_schedule, write_sparse_schedule
from cumae.gpu_impl.topk_to_slots import topk_to_slots, write_topk_to_slots

__all__ = [
    "CachedSchedule",
    "CausalWindows",
    "ChunkedContext",
    "CompactTopkSlots",
    "GroupedTopk",
    "KeyIndices",
    "MetadataCache",
    "PersistentBuffers",
    "SequenceLayout",
    "SparseSchedule",
    "causal_windows",
    "chunked_context",
    "compact_topk_slots",
    "grouped_topk",
    "latent_layout",
    "position_ids",
    "prefix_interleave",
    "sequence_layout",
    "slot_mapping",
    "sparse_schedule",
    "topk_to_slots",
    "write_cache",
    "write_causal_windows",
    "write_chunked_context",
    "write_compact_topk_slots",
    "write_grouped_topk",
    "write_packed_causal_windows",
    "write_position_ids",
    "write_prefix_interleave",
    "write_sequence_layout",
    "write_slot_mapping",
    "write_sparse_schedule",
    "write_topk_to_slots",
]
