"""Named shapes of cases that real test suites missed; a run prints the share of cases that shows each."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from cumae.oracle import Case, Request

T = TypeVar("T")
TILES = (32, 64, 128, 256, 512, 1024)
_AT_AN_EDGE = {tile + d for tile in TILES for d in (-1, 0, 1)}


def _requests(case: Case) -> Sequence[Request]:
    return case.batch.requests


def _empty(request: Request) -> bool:
    return request.query_len == 0


def _kept(function: Callable[[Case], T]) -> Callable[[Case], T]:
    """Return the function with its answer for the last case kept: many shapes ask for the same."""
    last: tuple[Case | None, Any] = (None, None)

    def kept(case: Case) -> T:
        nonlocal last
        if last[0] is not case:
            last = case, function(case)
        answer: T = last[1]
        return answer

    return kept


@_kept
def _lengths(case: Case) -> set[int]:
    """Return every context, query and sequence length of a case."""
    lens = {(r.context_len, r.query_len) for r in _requests(case)}
    return {length for pair in lens for length in (*pair, sum(pair))}


@_kept
def _live_blocks(case: Case) -> list[tuple[int, ...]]:
    """Return the blocks of each request that hold a token once the step is done."""
    size = case.batch.tokens_per_block
    return [r.block_ids[: -(-r.seq_len // size)] for r in _requests(case)]


def _counts(*wanted: int) -> Callable[[Case], bool]:
    return lambda case: len(_requests(case)) in wanted


def _has(phase: str, holds: Callable[[Request], bool]) -> Callable[[Case], bool]:
    return lambda case: any(r.phase == phase and holds(r) for r in _requests(case))


@_kept
def _computing(case: Case) -> list[Request]:
    return [r for r in _requests(case) if r.query_len > 0]


@_kept
def _items(case: Case) -> int:
    """Return the number of work items in the case's sparse schedule."""
    topk, size = case.options.selection.topk, case.options.schedule.split_size
    lens = (min(r.context_len + i + 1, topk) for r in _requests(case) for i in range(r.query_len))
    return sum(-(-kv_len // size) for kv_len in lens)


def _rest(case: Case) -> int:
    return case.options.selection.topk % case.options.schedule.split_size


def _routes(kind: str) -> Callable[[Case], bool]:
    return lambda case: case.options.router.logits_kind == kind and case.num_tokens_padded > 0


def _scattered(ids: Sequence[int]) -> bool:
    return list(ids) != list(range(len(ids)))


@_kept
def _shares(case: Case) -> bool:
    live = [i for ids in _live_blocks(case) for i in ids if i >= 0]
    return len(set(live)) < len(live)


def _shares_partly_filled(case: Case) -> bool:
    size, seen = case.batch.tokens_per_block, set()
    if not _shares(case):
        return False
    for r, ids in zip(_requests(case), _live_blocks(case), strict=True):
        for j, i in enumerate(ids):
            if i >= 0 and i in seen and (j + 1) * size > r.context_len and r.query_len:
                return True
            seen.add(i)
    return False


@_kept
def _tokens_of_each(case: Case) -> int:
    """Return the tokens that each of several requests decodes, 0 if they differ or one does not decode."""
    requests = _requests(case)
    counts = {r.query_len if r.phase == "decode" else 0 for r in requests}
    return counts.pop() if len(requests) > 1 and len(counts) == 1 else 0


SHAPES: dict[str, Callable[[Case], bool]] = {
    "no requests": _counts(0),
    "one request": _counts(1),
    "two requests": _counts(2),
    "31-33 requests": _counts(31, 32, 33),
    "127-129 requests": _counts(127, 128, 129),
    "1023-1025 requests": _counts(1023, 1024, 1025),
    "prefill and decode mixed": lambda c: len({r.phase for r in _requests(c) if r.query_len}) == 2,
    "first request has a cached prefix": lambda c: len(_requests(c)) > 1 and _requests(c)[0].context_len > 0,
    "prefill, first chunk": _has("prefill", lambda r: r.context_len == 0 and r.query_len > 0),
    "prefill, later chunk": _has("prefill", lambda r: r.context_len > 0 and r.query_len > 1),
    "prefill chunk of one token": _has("prefill", lambda r: r.query_len == 1),
    "decode of one token": _has("decode", lambda r: r.query_len == 1),
    "decode of several tokens": _has("decode", lambda r: r.query_len > 1),
    "decodes of one token each": lambda c: _tokens_of_each(c) == 1,
    "decodes of as many tokens each": lambda c: _tokens_of_each(c) > 1,
    "prefix hit, shared blocks": _shares,
    "partly filled block shared": _shares_partly_filled,
    "empty request first": lambda c: len(_requests(c)) > 1 and _empty(_requests(c)[0]),
    "empty request in the middle": lambda c: any(map(_empty, _requests(c)[1:-1])),
    "empty request last": lambda c: len(_requests(c)) > 1 and _empty(_requests(c)[-1]),
    "all requests empty": lambda c: bool(_requests(c)) and all(map(_empty, _requests(c))),
    "idle request with context": lambda c: any(_empty(r) and r.context_len for r in _requests(c)),
    "length 0": lambda c: 0 in _lengths(c),
    "length 1": lambda c: 1 in _lengths(c),
    "length block_size - 1": lambda c: c.batch.block_size > 2 and c.batch.block_size - 1 in _lengths(c),
    "length block_size": lambda c: c.batch.block_size > 1 and c.batch.block_size in _lengths(c),
    "length block_size + 1": lambda c: c.batch.block_size + 1 in _lengths(c),
    "length at a tile's edge": lambda c: not _AT_AN_EDGE.isdisjoint(_lengths(c)),
    "block size 1": lambda c: c.batch.block_size == 1,
    "block size 16": lambda c: c.batch.block_size == 16,
    "block size 64": lambda c: c.batch.block_size == 64,
    "block size no power of two": lambda c: c.batch.block_size & (c.batch.block_size - 1) > 0,
    "block ids scattered": lambda c: _scattered([i for r in _requests(c) for i in r.block_ids]),
    "missing blocks": lambda c: any(-1 in r.block_ids for r in _requests(c)),
    "spare blocks": lambda c: any(
        len(r.block_ids) > len(ids) for r, ids in zip(_requests(c), _live_blocks(c), strict=True)
    ),
    "rows scattered": lambda c: c.layout.row_index is not None and _scattered(c.layout.row_index),
    "request without a row": lambda c: -1 in (c.layout.row_index or ()),
    "spare table columns": lambda c: c.layout.num_spare_columns > 0,
    "garbage, minus one": lambda c: c.layout.garbage == "minus_one",
    "garbage, zero": lambda c: c.layout.garbage == "zero",
    "garbage, plausible": lambda c: c.layout.garbage == "plausible",
    "garbage, huge": lambda c: c.layout.garbage == "huge",
    "gaps between table rows alone": lambda c: (
        c.layout.table_row_gap > 0 and c.layout.table_column_step == 1 and c.layout.table_order == "row"
    ),
    "steps between table columns alone": lambda c: (
        c.layout.table_row_gap == 0 and c.layout.table_column_step > 1 and c.layout.table_order == "row"
    ),
    "table by columns": lambda c: c.layout.table_order == "column",
    "gaps between cached rows": lambda c: c.layout.cache_row_gap > 0,
    "gaps between blocks alone": lambda c: c.layout.cache_block_gap > 0 == c.layout.cache_row_gap,
    "gaps of new rows and of keys differ": lambda c: c.layout.new_row_gap != c.layout.key_row_gap,
    "tensors that begin at any element": lambda c: c.layout.storage_offset > 0,
    "tokens padded, requests not": lambda c: c.layout.num_padding_tokens > 0 == c.layout.num_padding_requests,
    "requests padded, tokens not": lambda c: c.layout.num_padding_requests > 0 == c.layout.num_padding_tokens,
    "padding over a tile": lambda c: c.layout.num_padding_tokens > 128,
    "no tokens, padded": lambda c: c.batch.num_tokens == 0 and c.num_tokens_padded > 0,
    "slot buffer longer than tokens": lambda c: c.layout.num_padding_slots > 0,
    "capacity exact": lambda c: c.layout.key_slack == 0,
    "capacity loose": lambda c: c.layout.key_slack > 0,
    "capacity too small": lambda c: c.layout.key_slack < 0 < c.num_keys,
    "int64 indices": lambda c: c.layout.index_dtype == "int64",
    "context parallel": lambda c: c.batch.world > 1,
    "context parallel, interleaved": lambda c: c.batch.world > 1 < c.options.parallel.interleave,
    "hybrid blocks": lambda c: c.kernel_block_size < c.batch.block_size,
    "compressed keys": lambda c: c.options.keys.compress_ratio > 1,
    "compressed keys on several ranks": lambda c: c.batch.world > 1 < c.options.keys.compress_ratio,
    "sliding window on several ranks": lambda c: c.batch.world > 1 and c.options.keys.window > 0,
    "sliding window": lambda c: c.options.keys.window > 0,
    "window shorter than a context": lambda c: 0 < c.options.keys.window < max(_lengths(c), default=0),
    "keys of prefills only": lambda c: c.options.keys.key_scope == "prefill",
    "dummy request": lambda c: c.options.padding.dummy_request and c.layout.num_padding_tokens > 0,
    "fewer keys than topk": lambda c: any(
        r.context_len + 1 < c.options.selection.topk for r in _computing(c)
    ),
    "keys reach topk in the chunk": lambda c: any(
        r.context_len + 1 < c.options.selection.topk < r.seq_len for r in _computing(c)
    ),
    "context beyond topk": lambda c: any(r.context_len >= c.options.selection.topk for r in _computing(c)),
    "several prefills in a workspace": lambda c: (
        c.options.selection.prefill_workspace and sum(r.phase == "prefill" for r in _computing(c)) > 1
    ),
    "topk of one": lambda c: c.options.selection.topk == 1,
    "topk of thousands": lambda c: c.options.selection.topk > 1000 and c.batch.num_tokens > 0,
    "topk a multiple of split_size": lambda c: (
        c.options.selection.topk > c.options.schedule.split_size > 1 and not _rest(c)
    ),
    "topk no multiple of split_size": lambda c: (
        c.options.selection.topk > c.options.schedule.split_size and _rest(c) > 0
    ),
    "split_size beyond topk": lambda c: c.options.schedule.split_size > c.options.selection.topk,
    "more workers than items": lambda c: (
        c.options.schedule.num_workers > 1 and c.options.schedule.num_workers > _items(c) > 0
    ),
    "items dealt unevenly": lambda c: (
        c.options.schedule.num_workers > 1 and _items(c) % c.options.schedule.num_workers > 0
    ),
    "no work items": lambda c: c.batch.num_tokens == 0,
    "lengths unknown to the host": lambda c: not c.layout.host_lens,
    "buffers longer than tokens": lambda c: c.layout.num_spare_tokens > 0,
    "rows of fp8": lambda c: c.options.rows.row_format == "fp8",
    "rows of fp16": lambda c: c.options.rows.row_format == "fp16",
    "rows of fp32": lambda c: c.options.rows.row_format == "fp32",
    "rows 512 + 64": lambda c: (c.options.rows.kv_lora_rank, c.options.rows.qk_rope_head_dim) == (512, 64),
    "logits all equal": _routes("equal"),
    "logits tied": _routes("ties"),
    "choices a rounding apart": _routes("near_ties"),
    "biases that are one in bf16": _routes("close_biases"),
    "choices all negative": _routes("negative"),
    "logits huge and tiny": _routes("huge_and_tiny"),
    "logits NaN and infinite": _routes("nan_and_inf"),
    "logits of bf16": lambda c: c.options.router.logits_dtype == "bf16",
    "bias of bf16": lambda c: c.options.router.bias_dtype == "bf16",
    "256 experts in 8 groups": lambda c: (
        (c.options.router.num_experts, c.options.router.num_groups) == (256, 8)
    ),
    "experts without groups": lambda c: c.options.router.num_groups == 1,
    "weights not renormalised": lambda c: not c.options.router.renormalize,
}


SIZES = (
    "tokens in a request",
    "cached tokens in a request",
    "tokens",
    "requests",
    "padded tokens",
    "padded requests",
)
"""The sizes by which a search tells how far it went."""


def shapes_of(case: Case, among: Collection[str] = SHAPES) -> list[str]:
    """Return the names of the shapes that a case shows, of some or of all."""
    return [name for name, shows in SHAPES.items() if name in among and shows(case)]


def largest_sizes(case: Case) -> dict[str, int]:
    """Return each of the ``SIZES`` of a case."""
    requests = _requests(case)
    counts = (
        max((r.query_len for r in requests), default=0),
        max((r.context_len for r in requests), default=0),
        case.batch.num_tokens,
        len(requests),
        case.layout.num_padding_tokens,
        case.layout.num_padding_requests,
    )
    return dict(zip(SIZES, counts, strict=True))
