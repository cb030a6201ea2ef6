"""The metadata that a serving engine must give to its attention kernels, defined in plain Python."""

from cumae.oracle.allocate_slots import AllocateSlots, allocate_slots
from cumae.oracle.any_chunks import AnyChunks, any_chunks, chunk_alignment, chunk_faults, workspace_rows
from cumae.oracle.attention import attention_row, dense_attention
from cumae.oracle.cache_write import CacheWrite, cache_write
from cumae.oracle.causal_windows import CausalWindows, causal_windows
from cumae.oracle.chunked_context import ChunkedContext, chunked_context
from cumae.oracle.compact_topk_slots import CompactTopkSlots, compact_topk_slots, compact_topk_slots_faults
from cumae.oracle.compressed_slots import CompressedSlots, compressed_slots
from cumae.oracle.context_parallel import local_len, owns
from cumae.oracle.draft_steps import DraftSteps, draft_steps
from cumae.oracle.flat_decodes import FlatDecodes, flat_decodes
from cumae.oracle.fp8_row import fp8_row
from cumae.oracle.grouped_topk import GroupedTopk, grouped_topk
from cumae.oracle.grouped_topk_judge import grouped_topk_faults
from cumae.oracle.kv_indices import KvIndices, kv_indices
from cumae.oracle.latent_layout import LatentLayout, latent_layout
from cumae.oracle.local_lens import LocalLens, local_lens
from cumae.oracle.metadata_cache import MetadataCache, ScheduleKey, metadata_cache, schedule_key
from cumae.oracle.model.batch import Batch, Phase, Request
from cumae.oracle.model.case import Case
from cumae.oracle.model.case_json import (
    from_json,
    to_json,
    trace_from_json,
    trace_to_json,
    tried_from_json,
    tried_to_json,
)
from cumae.oracle.model.fault import Fault
from cumae.oracle.model.heads import HEAD_FORMATS, PAGE_ORDERS, HeadFormat, PageOrder
from cumae.oracle.model.inputs import INPUTS, Inputs
from cumae.oracle.model.latent_rows import ROW_FORMATS, RowFormat
from cumae.oracle.model.layout import DENSE, GARBAGE_KINDS, INDEX_DTYPES, GarbageKind, IndexDtype, Layout
from cumae.oracle.model.marks import ANY, GARBAGE, UNTOUCHED, Mark
from cumae.oracle.model.option_groups import SELECTION_ORDERS, KeyScope, SelectionOrder
from cumae.oracle.model.options import Options
from cumae.oracle.model.trace import Trace, leveled
from cumae.oracle.operations import OPERATIONS, OperationName, outputs_of
from cumae.oracle.page_read import PageRead, page_read
from cumae.oracle.page_table import PageTable, page_table
from cumae.oracle.page_write import PageWrite, page_units, page_write
from cumae.oracle.persistent_buffers import PersistentBuffers, persistent_buffers
from cumae.oracle.position_ids import PositionIds, position_ids
from cumae.oracle.prefix_interleave import PrefixInterleave, prefix_interleave
from cumae.oracle.ring_slots import RingSlots, ring_slots
from cumae.oracle.router_logits import (
    BIAS_KINDS,
    FLOAT_DTYPES,
    LOGITS_KINDS,
    BiasKind,
    FloatDtype,
    LogitsKind,
)
from cumae.oracle.router_margins import Margins, Rounding, Ties, margins_of, rights_of_rows
from cumae.oracle.scaled_head import restored_number, scaled_head
from cumae.oracle.sequence_chunks import SequenceChunks, sequence_chunks
from cumae.oracle.sequence_layout import SequenceLayout, sequence_layout
from cumae.oracle.slot_mapping import SlotMapping, slot_mapping
from cumae.oracle.sparse_schedule import (
    AnySchedule,
    SparseSchedule,
    any_schedule,
    kv_lens_of,
    schedule_faults,
    sparse_schedule,
)
from cumae.oracle.topk_to_slots import TopkToSlots, topk_to_slots
from cumae.oracle.window_slots import WindowSlots, window_slots

__all__ = [
    "ANY",
    "BIAS_KINDS",
    "DENSE",
    "FLOAT_DTYPES",
    "GARBAGE",
    "GARBAGE_KINDS",
    "HEAD_FORMATS",
    "INDEX_DTYPES",
    "INPUTS",
    "LOGITS_KINDS",
    "OPERATIONS",
    "PAGE_ORDERS",
    "ROW_FORMATS",
    "SELECTION_ORDERS",
    "UNTOUCHED",
    "AllocateSlots",
    "AnyChunks",
    "AnySchedule",
    "Batch",
    "BiasKind",
    "CacheWrite",
    "Case",
    "CausalWindows",
    "ChunkedContext",
    "CompactTopkSlots",
    "CompressedSlots",
    "DraftSteps",
    "Fault",
    "FlatDecodes",
    "FloatDtype",
    "GarbageKind",
    "GroupedTopk",
    "HeadFormat",
    "IndexDtype",
    "Inputs",
    "KeyScope",
    "KvIndices",
    "LatentLayout",
    "Layout",
    "LocalLens",
    "LogitsKind",
    "Margins",
    "Mark",
    "MetadataCache",
    "OperationName",
    "Options",
    "PageOrder",
    "PageRead",
    "PageTable",
    "PageWrite",
    "PersistentBuffers",
    "Phase",
    "PositionIds",
    "PrefixInterleave",
    "Request",
    "RingSlots",
    "Rounding",
    "RowFormat",
    "ScheduleKey",
    "SelectionOrder",
    "SequenceChunks",
    "SequenceLayout",
    "SlotMapping",
    "SparseSchedule",
    "Ties",
    "TopkToSlots",
    "Trace",
    "WindowSlots",
    "allocate_slots",
    "any_chunks",
    "any_schedule",
    "attention_row",
    "cache_write",
    "causal_windows",
    "chunk_alignment",
    "chunk_faults",
    "chunked_context",
    "compact_topk_slots",
    "compact_topk_slots_faults",
    "compressed_slots",
    "dense_attention",
    "draft_steps",
    "flat_decodes",
    "fp8_row",
    "from_json",
    "grouped_topk",
    "grouped_topk_faults",
    "kv_indices",
    "kv_lens_of",
    "latent_layout",
    "leveled",
    "local_len",
    "local_lens",
    "margins_of",
    "metadata_cache",
    "outputs_of",
    "owns",
    "page_read",
    "page_table",
    "page_units",
    "page_write",
    "persistent_buffers",
    "position_ids",
    "prefix_interleave",
    "restored_number",
    "rights_of_rows",
    "ring_slots",
    "scaled_head",
    "schedule_faults",
    "schedule_key",
    "sequence_chunks",
    "sequence_layout",
    "slot_mapping",
    "sparse_schedule",
    "to_json",
    "topk_to_slots",
    "trace_from_json",
    "trace_to_json",
    "tried_from_json",
    "tried_to_json",
    "window_slots",
    "workspace_rows",
]
