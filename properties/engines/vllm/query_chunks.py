"""Rows of the sparse indexer's logits, packed request by request into a budget of bytes."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import CUMAE, Input, Output
from cumae.properties.engines.parts import write_parts
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.plans import PLANNED
from cumae.properties.operations import Operation

Tensor = torch.Tensor
Chunk = tuple[int, int, int, int]
_OFFSET = 3
"""The number that the first prefill has among all requests of the step."""


def narrow_workspace(case: Case) -> int:
    """Return the rows of a workspace that need not hold a block of each request."""
    options = case.options.workspace
    return options.chunk_blocks * case.batch.block_size + options.workspace_slack


NARROW = CUMAE.extend(row_budget=Input(lambda inputs: narrow_workspace(inputs.case), ("workspace",)))


class QueryChunks(NamedTuple):
    """int32 [tokens]: chunk j is rows ``[query_start[j], query_stop[j])`` of those of some requests.

    They are requests ``[request_start[j], request_stop[j])``, and their rows are counted from 0. Behind the
    chunks all four are -1.
    """

    request_start: list[int]
    request_stop: list[int]
    query_start: list[int]
    query_stop: list[int]


def _room(query_lens: Sequence[int]) -> QueryChunks:
    room = [-1] * sum(query_lens)
    return QueryChunks(room, room, room, room)


def _num_bytes(case: Case) -> int:
    """Return the bytes that a chunk's logits may fill, not whole words."""
    return 4 * narrow_workspace(case) * case.options.workspace.chunk_blocks + 3


def _of_gathered_keys(case: Case, chunk: Chunk) -> str:
    """Judge logits over the keys of all requests; one request alone may have more, for one row at least."""
    start, stop, first, last = chunk
    keys = sum(request.seq_len for request in case.batch.requests[start:stop])
    is_alone = stop == start + 1
    if keys > narrow_workspace(case) and not is_alone:
        return f"{keys} keys, and the workspace has {narrow_workspace(case)}"
    fits = 4 * (last - first) * keys <= _num_bytes(case) or (is_alone and last == first + 1)
    return "" if fits else f"{last - first} rows of {keys} keys, and {_num_bytes(case)} bytes"


def _of_keys_in_the_cache(case: Case, chunk: Chunk) -> str:
    """Judge logits as wide as the longest of the requests, for one row at least."""
    start, stop, first, last = chunk
    keys = max(request.seq_len for request in case.batch.requests[start:stop])
    fits = 4 * (last - first) * keys <= _num_bytes(case) or last == first + 1
    return "" if fits else f"{last - first} rows of {keys} keys, and {_num_bytes(case)} bytes"


def _operation(fault: Callable[[Case, Chunk], str]) -> Operation:
    """Return the operation whose chunks hold all rows in order, each judged by ``fault``."""

    def faults(inputs: Inputs, outputs: Mapping[str, list[int]]) -> Sequence[str]:
        columns = [outputs[name] for name in QueryChunks._fields]
        chunks = [chunk for chunk in zip(*columns, strict=True) if chunk != (-1, -1, -1, -1)]
        told = _disorder(inputs["query_lens"], chunks)
        return [told] if told else [told for chunk in chunks if (told := fault(inputs.case, chunk))]

    rule = "each row of a request is in one chunk, in order; the logits of a chunk fit the budget"
    outputs = tuple(
        Output(name, "int32", "chunk_part", shape=lambda case: (case.batch.num_tokens,))
        for name in QueryChunks._fields
    )
    return Operation("query_chunks", _room, outputs, frozenset({"workspace"}), rule, judge=faults)


def _disorder(query_lens: Sequence[int], chunks: Sequence[Chunk]) -> str:
    """Return where the chunks leave a row out or hold it twice; requests without rows may be in none."""
    reached = 0
    for (start, stop), held in groupby(chunks, key=lambda chunk: chunk[:2]):
        if not reached <= start < stop <= len(query_lens) or any(query_lens[reached:start]):
            return f"requests [{start}, {stop}) follow request {reached - 1}"
        row = 0
        for _, _, first, last in held:
            if first != row or last <= first:
                return f"requests [{start}, {stop}): rows [{first}, {last}) follow row {row - 1}"
            row = last
        if row != sum(query_lens[start:stop]):
            return f"requests [{start}, {stop}) have {sum(query_lens[start:stop])} rows, their chunks {row}"
        reached = stop
    return f"requests from {reached} on are in no chunk" if any(query_lens[reached:]) else ""


_NAMES = NARROW.extend(
    seq_lens_cpu="seq_lens",
    max_logits_bytes=Input(lambda inputs: _num_bytes(inputs.case), ("workspace",)),
)


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/indexer.py",
    "DeepseekV32IndexerMetadataBuilder._split_indexer_prefill_chunks",
    operation=_operation(_of_gathered_keys),
    dialect=_NAMES,
    domain=PLANNED,
)
def split_indexer_prefill_chunks(function: Any) -> Callable[..., None]:
    """Chunks under two budgets: the keys that are gathered, and the logits."""

    def launch(
        seq_lens_cpu: Tensor,
        query_lens_cpu: Tensor,
        row_budget: int,
        max_logits_bytes: int,
        request_start: Tensor,
        request_stop: Tensor,
        query_start: Tensor,
        query_stop: Tensor,
    ) -> None:
        chunks = function(seq_lens_cpu, query_lens_cpu, row_budget, max_logits_bytes, _OFFSET)
        _write(chunks, request_start, request_stop, query_start, query_stop)

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_paged_mxfp4_indexer.py",
    "split_prefill_chunks",
    operation=_operation(_of_keys_in_the_cache),
    dialect=_NAMES,
    domain=PLANNED,
)
def split_paged_prefill_chunks(function: Any) -> Callable[..., None]:
    """Chunks under one budget, that of the logits; keys are read in the cache."""

    def launch(
        seq_lens_cpu: Tensor,
        query_lens_cpu: Tensor,
        max_logits_bytes: int,
        request_start: Tensor,
        request_stop: Tensor,
        query_start: Tensor,
        query_stop: Tensor,
    ) -> None:
        chunks = function(seq_lens_cpu, query_lens_cpu, max_logits_bytes, _OFFSET)
        _write(chunks, request_start, request_stop, query_start, query_stop)

    return launch


def _write(chunks: Sequence[tuple[slice, slice]], *outputs: Tensor) -> None:
    rows = [(held.start - _OFFSET, held.stop - _OFFSET, rows.start, rows.stop) for held, rows in chunks]
    write_parts(rows, *outputs)
