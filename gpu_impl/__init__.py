"""Triton kernels that write the metadata of a serving engine, with thin torch launchers."""

from cumae.gpu_impl.allocate_slots import write_allocate_slots
from cumae.gpu_impl.cache_write import write_cache
from cumae.gpu_impl.causal_windows import write_causal_windows, write_packed_causal_windows
from cumae.gpu_impl.chunked_context import write_chunked_context
from cumae.gpu_impl.compact_topk_slots import write_compact_topk_slots
from cumae.gpu_impl.compressed_slots import write_compressed_slots
from cumae.gpu_impl.draft_steps import write_draft_steps
from cumae.gpu_impl.flat_decodes import write_flat_decodes
from cumae.gpu_impl.grouped_topk import write_grouped_topk
from cumae.gpu_impl.kv_indices import write_kv_indices
from cumae.gpu_impl.latent_layout import latent_layout
from cumae.gpu_impl.local_lens import write_local_lens
from cumae.gpu_impl.metadata_cache import CachedSchedule, MetadataCache
from cumae.gpu_impl.page_read import read_pages
from cumae.gpu_impl.page_table import write_page_table
from cumae.gpu_impl.page_write import write_pages
from cumae.gpu_impl.persistent_buffers import KeyIndices, PersistentBuffers
from cumae.gpu_impl.position_ids import write_position_ids
from cumae.gpu_impl.prefix_interleave import write_prefix_interleave
from cumae.gpu_impl.ring_slots import write_ring_slots
from cumae.gpu_impl.sequence_chunks import write_sequence_chunks
from cumae.gpu_impl.sequence_layout import write_sequence_layout
from cumae.gpu_impl.slot_mapping import write_slot_mapping
from cumae.gpu_impl.sparse_schedule import write_sparse_schedule
from cumae.gpu_impl.step_metadata import write_step_metadata
from cumae.gpu_impl.topk_to_slots import write_topk_to_slots
from cumae.gpu_impl.window_slots import write_window_slots

__all__ = [
    "CachedSchedule",
    "KeyIndices",
    "MetadataCache",
    "PersistentBuffers",
    "latent_layout",
    "read_pages",
    "write_allocate_slots",
    "write_cache",
    "write_causal_windows",
    "write_chunked_context",
    "write_compact_topk_slots",
    "write_compressed_slots",
    "write_draft_steps",
    "write_flat_decodes",
    "write_grouped_topk",
    "write_kv_indices",
    "write_local_lens",
    "write_packed_causal_windows",
    "write_page_table",
    "write_pages",
    "write_position_ids",
    "write_prefix_interleave",
    "write_ring_slots",
    "write_sequence_chunks",
    "write_sequence_layout",
    "write_slot_mapping",
    "write_sparse_schedule",
    "write_step_metadata",
    "write_topk_to_slots",
    "write_window_slots",
]
