"""The routes of attention kernels from metadata to keys: for each row, its keys in parts."""

from collections.abc import Callable
from typing import NamedTuple

from cumae.oracle import Case
from cumae.properties.attention.chunks import by_chunks
from cumae.properties.attention.key_buffers import by_key_offsets, by_windows
from cumae.properties.attention.pages import (
    by_allocated_slots,
    by_key_lens,
    by_listed_pages,
    by_next_token,
    by_page_table,
    by_request,
    by_selected_lens,
    by_token,
    by_window_slots,
)
from cumae.properties.attention.parts import Rows
from cumae.properties.attention.schedules import (
    by_any_schedule,
    by_compact_slots,
    by_ragged_slots,
    by_schedule,
    by_selected_slots,
)
from cumae.properties.attention.step import Step

WRITES = ("slot_mapping", "cache_write", "position_ids", "latent_layout")
"""Operations of every route: they place new rows, rotate them and view the cache."""


class Route(NamedTuple):
    """A route to the keys. ``rows``: yields each row's parts; ``operations``: used beside ``WRITES``.

    ``sees``: the keys that a token sees: ``all`` up to its own, those in the ``window``, the ``selected``
    ones or ``compressed`` groups; ``fits``: whether it exists for a case; ``of``: the tokens it is for:
    all ``tokens``, those in the ``scope`` of keys, ``prefill`` tokens, the ``next`` of each request, or those
    whose list is not cut for another (``whole lists``).
    """

    name: str
    operations: tuple[str, ...]
    rows: Callable[[Step], Rows]
    fits: Callable[[Case], bool]
    sees: str = "all"
    of: str = "tokens"


def _one_rank(case: Case) -> bool:
    return case.batch.world == 1


def _plain(case: Case) -> bool:
    return case.batch.world == 1 and case.options.keys.compress_ratio == 1


def _whole_runs(case: Case) -> bool:
    """Whether no run of a rank's positions crosses an entry of the page table."""
    return case.batch.world == 1 or case.kernel_block_size % case.options.parallel.interleave == 0


def _windowed(case: Case) -> bool:
    return case.batch.world == 1 and case.options.keys.window > 0


def _any(case: Case) -> bool:
    return True


_TOPK = ("topk_to_slots",)
_RAGGED = ("persistent_buffers",)
ROUTES = (
    Route(
        "pages of token_to_request",
        ("sequence_layout",),
        lambda step: by_token(step, step.says("sequence_layout", "token_to_request")),
        _any,
    ),
    Route("pages of each request's rows", ("sequence_layout",), by_request, _any),
    Route(
        "interleaved keys by cu_seqlens",
        ("sequence_layout", "prefix_interleave"),
        by_key_offsets,
        _plain,
        of="scope",
    ),
    Route(
        "interleaved keys by windows",
        ("causal_windows", "prefix_interleave"),
        by_windows,
        _plain,
        "window",
        "prefill",
    ),
    Route(
        "keys of each rank by windows",
        ("causal_windows", "sequence_layout"),
        by_windows,
        lambda case: case.batch.world > 1 and case.options.keys.compress_ratio == 1,
        "window",
        "prefill",
    ),
    Route(
        "compressed keys by windows",
        ("causal_windows", "sequence_layout"),
        by_windows,
        lambda case: case.options.keys.compress_ratio > 1,
        "compressed",
        "prefill",
    ),
    Route("context chunk by chunk", ("chunked_context", "sequence_layout"), by_chunks, _one_rank, of="scope"),
    Route("selected slots", _TOPK, by_selected_slots, _any, "selected"),
    Route("compact selected slots", ("compact_topk_slots",), by_compact_slots, _any, "selected"),
    Route(
        "selected slots by schedule",
        ("sparse_schedule", *_TOPK),
        lambda step: by_schedule(step, "sparse_schedule", "topk_to_slots"),
        _any,
        "selected",
    ),
    Route("ragged slots", _RAGGED, by_ragged_slots, _one_rank, "selected"),
    Route(
        "ragged slots by schedule",
        ("sparse_schedule", *_RAGGED),
        lambda step: by_schedule(step, "sparse_schedule", "persistent_buffers"),
        _one_rank,
        "selected",
    ),
    Route(
        "ragged slots by cached schedule",
        ("metadata_cache", *_RAGGED),
        lambda step: by_schedule(step, "metadata_cache", "persistent_buffers"),
        _one_rank,
        "selected",
    ),
    Route("selected slots by any schedule", ("any_schedule", *_TOPK), by_any_schedule, _any, "selected"),
    Route(
        "pages of request_of_row",
        _RAGGED,
        lambda step: by_token(step, step.says("persistent_buffers", "request_of_row")),
        _one_rank,
    ),
    Route("columns of the page table", ("page_table",), by_page_table, _whole_runs, "window"),
    Route("listed pages", ("kv_indices",), by_listed_pages, _one_rank, "window", "whole lists"),
    Route("listed windows", ("window_slots",), by_window_slots, _windowed, "window"),
    Route("pages of flattened decodes", ("flat_decodes",), by_key_lens, _any),
    Route(
        "ragged slots of flattened decodes",
        ("flat_decodes", *_RAGGED),
        by_selected_lens,
        _one_rank,
        "selected",
    ),
    Route("allocated slots", ("allocate_slots",), by_allocated_slots, _one_rank),
    Route("read back by the next token", (), by_next_token, _any, of="next"),
)
