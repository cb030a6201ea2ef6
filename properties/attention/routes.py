"""The routes of attention kernels from metadata to keys: for each row, its keys in parts."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cumae.oracle import Case
from cumae.oracle.attention import mean_row
from cumae.properties.attention.chunks import by_chunks
from cumae.properties.attention.pages import (
    by_allocated_slots,
    by_key_lens,
    by_listed_pages,
    by_page_table,
    by_selected_lens,
    by_window_slots,
)
from cumae.properties.attention.parts import NOBODY, Key, OutOfReach, Part
from cumae.properties.attention.schedules import (
    by_any_schedule,
    by_compact_slots,
    by_ragged_slots,
    by_schedule,
    by_selected_slots,
)
from cumae.properties.attention.step import Step, at

Rows = Iterator[tuple[int, Sequence[Part]]]
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


def by_token(step: Step, owners: Sequence[int]) -> Rows:
    """Yield for each token the pages of its request, up to its own position."""
    positions = step.says("position_ids", "position_ids")
    for row in range(len(step.tokens)):
        owner = at(owners, row, "token_to_request")
        last = at(positions, row, "position_ids")
        yield row, [Part([step.cached(owner, p) for p in range(last + 1)] if owner >= 0 else [])]


def by_request(step: Step) -> Rows:
    """Yield for each row of a request its pages: the last row sees all keys, each row before it one less."""
    starts, longest = (
        step.says("sequence_layout", "cu_seqlens_q"),
        step.says("sequence_layout", "max_seqlen_q"),
    )
    most_keys = step.says("sequence_layout", "max_seqlen_k")[0]
    seq_lens = step.inputs("sequence_layout")["seq_lens"]
    for b, seq_len in enumerate(seq_lens):
        first, stop = at(starts, b, "cu_seqlens_q"), at(starts, b + 1, "cu_seqlens_q")
        for row in range(first, min(stop, first + longest[0])):
            at(step.new_rows, row, "the rows of the step")
            visible = min(seq_len - (stop - row) + 1, most_keys)
            yield row, [Part([step.cached(b, p) for p in range(visible)])]


def by_key_offsets(step: Step) -> Rows:
    """Yield for each row of a request its span of the interleaved keys, cut as in ``by_request``."""
    keys = interleaved(step)
    longest = step.says("sequence_layout", "max_seqlen_q")
    query_starts, key_starts = (step.says("sequence_layout", f"cu_seqlens_{x}") for x in "qk")
    for b, request in enumerate(step.batch.requests):
        if step.case.options.keys.key_scope == "prefill" and request.phase == "decode":
            continue
        first, stop = at(query_starts, b, "cu_seqlens_q"), at(query_starts, b + 1, "cu_seqlens_q")
        first_key, last_key = at(key_starts, b, "cu_seqlens_k"), at(key_starts, b + 1, "cu_seqlens_k")
        for row in range(first, min(stop, first + longest[0])):
            at(step.new_rows, row, "the rows of the step")
            end = last_key - (stop - row) + 1
            yield row, [Part([at(keys, i, "keys") for i in range(first_key, end)])]


def by_windows(step: Step) -> Rows:
    """Yield for each prefill token the keys in its window on every rank."""
    buffers = [key_buffer(step, rank) for rank in step.ranks]
    for row in prefill_rows(step):
        parts = []
        for rank, keys in zip(step.ranks, buffers, strict=True):
            first = at(step.says("causal_windows", "ks", rank), row, "ks")
            stop = at(step.says("causal_windows", "ke", rank), row, "ke")
            if first > stop:
                raise OutOfReach(
                    f"has a window [{first}, {stop}) in row {row}: kernels take both as unsigned"
                )
            parts.append(Part([at(keys, i, "keys") for i in range(first, stop)]))
        yield row, parts


def by_next_token(step: Step) -> Rows:
    """Yield for the next token of each request all its pages, read back, and its own key."""
    for b, request in enumerate(step.batch.requests):
        pages = [step.cached(b, p) for p in range(request.seq_len)]
        yield step.case.num_tokens_padded + b, [Part([*pages, step.next_token(b)])]


def prefill_rows(step: Step) -> list[int]:
    """Return the rows of prefill tokens."""
    return [row for row, (b, _) in enumerate(step.tokens) if step.batch.requests[b].phase == "prefill"]


def interleaved(step: Step) -> list[Key]:
    """Return the contiguous keys, each read from its source in ``prefix_interleave``."""
    keys = []
    for source in step.says("prefix_interleave", "keys"):
        match source:
            case ("cache", block, offset):
                keys.append(step.read(block * step.batch.block_size + offset))
            case ("new", row):
                keys.append(at(step.new_rows, row, "the rows of the step"))
            case _:
                keys.append(NOBODY)
    return keys


def key_buffer(step: Step, rank: int) -> list[Key]:
    """Return the key buffer of the windows: interleaved, compressed, or one rank's keys."""
    options, world = step.case.options, step.batch.world
    ratio = options.keys.compress_ratio
    if world == 1 and ratio == 1:
        return interleaved(step)
    spans = step.says("sequence_layout", "cu_seqlens_k")
    in_scope = [r for r in step.batch.requests if options.keys.key_scope == "all" or r.phase == "prefill"]
    keys = [NOBODY] * sum(request.seq_len // ratio for request in in_scope)
    for b, request in enumerate(step.batch.requests):
        if request.query_len == 0 or request.phase == "decode":
            continue
        complete = [range(g, g + ratio) for g in range(0, request.seq_len - ratio + 1, ratio)]
        groups = [
            pages for g, pages in enumerate(complete) if g // options.parallel.interleave % world == rank
        ]
        first, stop = at(spans, b, "cu_seqlens_k"), at(spans, b + 1, "cu_seqlens_k")
        for g in range(stop - first if groups else 0):
            at(keys, first + g, "keys")
            pages = [step.cached(b, p) for p in groups[g]] if g < len(groups) else [NOBODY]
            keys[first + g] = pages[0] if ratio == 1 else Key(mean_row([page.values for page in pages]))
    return keys


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
