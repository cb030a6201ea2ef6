"""The operations, each by the name of its oracle, in the order in which everybody tells them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

from cumae.oracle.allocate_slots import allocate_slots
from cumae.oracle.any_chunks import any_chunks
from cumae.oracle.cache_write import cache_write
from cumae.oracle.causal_windows import causal_windows
from cumae.oracle.chunked_context import chunked_context
from cumae.oracle.compact_topk_slots import compact_topk_slots
from cumae.oracle.compressed_slots import compressed_slots
from cumae.oracle.draft_steps import draft_steps
from cumae.oracle.flat_decodes import flat_decodes
from cumae.oracle.grouped_topk import grouped_topk
from cumae.oracle.kv_indices import kv_indices
from cumae.oracle.local_lens import local_lens
from cumae.oracle.metadata_cache import metadata_cache
from cumae.oracle.page_read import page_read
from cumae.oracle.page_table import page_table
from cumae.oracle.page_write import page_write
from cumae.oracle.persistent_buffers import persistent_buffers
from cumae.oracle.position_ids import position_ids
from cumae.oracle.prefix_interleave import prefix_interleave
from cumae.oracle.ring_slots import ring_slots
from cumae.oracle.sequence_chunks import sequence_chunks
from cumae.oracle.sequence_layout import sequence_layout
from cumae.oracle.slot_mapping import slot_mapping
from cumae.oracle.sparse_schedule import any_schedule, sparse_schedule
from cumae.oracle.topk_to_slots import topk_to_slots
from cumae.oracle.window_slots import window_slots

OperationName = Literal[
    "sequence_layout",
    "position_ids",
    "slot_mapping",
    "causal_windows",
    "prefix_interleave",
    "cache_write",
    "page_write",
    "page_read",
    "sparse_schedule",
    "any_schedule",
    "metadata_cache",
    "persistent_buffers",
    "topk_to_slots",
    "compact_topk_slots",
    "chunked_context",
    "any_chunks",
    "grouped_topk",
    "local_lens",
    "page_table",
    "kv_indices",
    "draft_steps",
    "allocate_slots",
    "sequence_chunks",
    "flat_decodes",
    "window_slots",
    "compressed_slots",
    "ring_slots",
]
"""The names of the operations below, for type checkers."""
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    oracle.__name__: oracle
    for oracle in (
        sequence_layout,
        position_ids,
        slot_mapping,
        causal_windows,
        prefix_interleave,
        cache_write,
        page_write,
        page_read,
        sparse_schedule,
        any_schedule,
        metadata_cache,
        persistent_buffers,
        topk_to_slots,
        compact_topk_slots,
        chunked_context,
        any_chunks,
        grouped_topk,
        local_lens,
        page_table,
        kv_indices,
        draft_steps,
        allocate_slots,
        sequence_chunks,
        flat_decodes,
        window_slots,
        compressed_slots,
        ring_slots,
    )
}


def outputs_of(operation: str) -> tuple[str, ...]:
    """Return the names of an operation's outputs: the fields of what its oracle returns.

    >>> outputs_of("causal_windows")
    ('ks', 'ke')
    """
    fields: tuple[str, ...] = get_type_hints(OPERATIONS[operation])["return"]._fields
    return fields
