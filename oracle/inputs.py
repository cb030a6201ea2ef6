"""The inputs of a case by name, as integers and lists; what oracles are called with.

A name means the same everywhere: an oracle's parameter, a key of the JSON vectors, and the
argument of a kernel in the dialect ``cumae``. Entries nobody may read are ``GARBAGE``.
"""

import inspect
from collections.abc import Callable
from typing import Any

from cumae.oracle.case import Case
from cumae.oracle.marks import GARBAGE
from cumae.oracle.position_ids import position_ids
from cumae.oracle.sequence_layout import SequenceLayout, sequence_layout


class Inputs:
    """The named inputs of one case, each computed once, when it is asked for.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(2, 1, (5,), "decode"), Request(0, 0), Request(0, 2, (3,))), 4))
    >>> Inputs(case)["cu_seqlens_q"], Inputs(case)["block_table"]
    ([0, 1, 1, 3], [[5], [GARBAGE], [3]])
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if name not in INPUTS:
                raise ValueError(f"input = {name!r}, must be one of {', '.join(sorted(INPUTS))}")
            self._known[name] = INPUTS[name](self)
        return self._known[name]

    def call(self, oracle: Callable[..., Any]) -> Any:
        """Return what ``oracle`` answers when its parameters are filled by name."""
        return oracle(**{name: self[name] for name in inspect.signature(oracle).parameters})


def _per_request(inputs: Inputs, values: list[Any], padding: Any) -> list[Any]:
    return values + [padding] * inputs.case.layout.num_padding_requests


def _context_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.context_len for request in inputs.case.batch.requests], 0)


def _query_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.query_len for request in inputs.case.batch.requests], 0)


def _seq_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.seq_len for request in inputs.case.batch.requests], 0)


def _is_prefill(inputs: Inputs) -> list[Any]:
    requests = inputs.case.batch.requests
    return _per_request(inputs, [request.phase == "prefill" for request in requests], GARBAGE)


def _layout(inputs: Inputs) -> SequenceLayout:
    layout: SequenceLayout = inputs.call(sequence_layout)
    return layout


def _rows(inputs: Inputs) -> list[int]:
    rows = inputs.case.layout.row_index
    return list(range(len(inputs.case.batch.requests))) if rows is None else list(rows)


def _row_index(inputs: Inputs) -> list[Any]:
    return _per_request(inputs, _rows(inputs), GARBAGE)


def _block_table(inputs: Inputs) -> list[list[Any]]:
    """Rows of kernel blocks, as wide as the furthest block there is plus the spare columns."""
    case = inputs.case
    rows, requests = _rows(inputs), case.batch.requests
    granted = [_without_tail(request.block_ids) for request in requests]
    width = max(map(len, granted), default=0) + case.layout.num_spare_columns
    num_rows = max([len(requests), *(row + 1 for row in rows)]) + case.layout.num_spare_rows
    num_rows += case.layout.num_padding_requests
    table: list[list[Any]] = [[GARBAGE] * width for _ in range(num_rows)]
    parts = case.batch.block_size // case.kernel_block_size
    for row, request in zip(rows, requests, strict=True):
        if row >= 0:
            table[row][: len(request.block_ids)] = list(request.block_ids[:width])
    return [[part for entry in row for part in _kernel_blocks(entry, parts)] for row in table]


def _without_tail(block_ids: tuple[int, ...]) -> tuple[int, ...]:
    end = len(block_ids)
    while end and block_ids[end - 1] < 0:
        end -= 1
    return block_ids[:end]


def _kernel_blocks(entry: Any, parts: int) -> list[Any]:
    if entry is GARBAGE or entry < 0:
        return [entry] * parts
    return [entry * parts + part for part in range(parts)]


def _live_count(phase: str) -> Callable[[Inputs], int]:
    return lambda inputs: sum(r.query_len for r in inputs.case.batch.requests if r.phase == phase)


INPUTS: dict[str, Callable[[Inputs], Any]] = {
    "context_lens": _context_lens,
    "query_lens": _query_lens,
    "seq_lens": _seq_lens,
    "is_prefill": _is_prefill,
    "row_index": _row_index,
    "block_table": _block_table,
    "cu_seqlens_q": lambda inputs: _layout(inputs).cu_seqlens_q,
    "cu_seqlens_k": lambda inputs: _layout(inputs).cu_seqlens_k,
    "token_to_request": lambda inputs: _layout(inputs).token_to_request,
    "position_ids": lambda inputs: inputs.call(position_ids).position_ids,
    "num_requests": lambda inputs: len(inputs.case.batch.requests),
    "num_requests_padded": lambda inputs: inputs.case.num_requests_padded,
    "num_tokens": lambda inputs: inputs.case.batch.num_tokens,
    "num_tokens_padded": lambda inputs: inputs.case.num_tokens_padded,
    "num_prefill_tokens": _live_count("prefill"),
    "num_decode_tokens": _live_count("decode"),
    "num_slots": lambda inputs: inputs.case.num_slots,
    "num_keys": lambda inputs: inputs.case.num_keys,
    "capacity": lambda inputs: inputs.case.capacity,
    "max_context_len": lambda inputs: inputs.case.max_context_len,
    "block_size": lambda inputs: inputs.case.batch.block_size,
    "kernel_block_size": lambda inputs: inputs.case.kernel_block_size,
    "world": lambda inputs: inputs.case.batch.world,
    "rank": lambda inputs: inputs.case.options.rank,
    "interleave": lambda inputs: inputs.case.options.interleave,
    "compress_ratio": lambda inputs: inputs.case.options.compress_ratio,
    "window": lambda inputs: inputs.case.options.window,
    "key_scope": lambda inputs: inputs.case.options.key_scope,
    "token_padding": lambda inputs: inputs.case.options.token_padding,
    "dummy_request": lambda inputs: inputs.case.options.dummy_request,
}
