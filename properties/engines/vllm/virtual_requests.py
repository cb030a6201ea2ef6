"""Steps seen as others: local attention as virtual requests, and sampled rows alone."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, Case, Inputs, SequenceChunks, draft_steps, sequence_chunks
from cumae.properties.dialects import VLLM, Output
from cumae.properties.dialects.vllm.drafts import num_logits
from cumae.properties.engines.cut_chunks import of_chunks
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, held
from cumae.properties.engines.vllm.drafts import STEPS as SAMPLED
from cumae.properties.engines.vllm.engine import ENGINE, UNPADDED

Tensor = torch.Tensor
_UTILS = "vllm/v1/attention/backends/utils.py"
_FULL = UNPADDED.having(empty_requests=False)


def _sent(array: Any, device: Any) -> Tensor:
    """Stand in for a copy to the device."""
    return torch.as_tensor(array).to(device)


def _parts(case: Case) -> list[tuple[int, int, int]]:
    """Return of each virtual request its request, and its first and last position, by ``sequence_chunks``."""
    scoped = Case(case.batch, case.layout, case.options.having(absolute_chunks=True))
    found: SequenceChunks = Inputs(scoped).call(sequence_chunks)
    size, parts = case.options.chunks.chunk_size, list[tuple[int, int, int]]()
    for b, number in zip(found.chunk_sequences, found.chunk_numbers, strict=True):
        if b >= 0:
            request = case.batch.requests[b]
            first = max((request.context_len // size + number) * size, request.context_len)
            parts.append((b, first, min((first // size + 1) * size, request.seq_len) - 1))
    return parts


def _starts(case: Case) -> list[int]:
    return [0, *np.cumsum([last + 1 - first for _, first, last in _parts(case)]).tolist()]


def _lens(case: Case) -> list[int]:
    return [last % case.options.chunks.chunk_size + 1 for _, _, last in _parts(case)]


def _width(case: Case) -> int:
    return case.options.chunks.chunk_size // case.batch.block_size


def _blocks(_: Any, inputs: Inputs) -> list[Any]:
    """Return the blocks that hold keys of each virtual request, and anything behind them."""
    case, found = inputs.case, list[Any]()
    block, size = case.batch.block_size, case.options.chunks.chunk_size
    for b, first, last in _parts(case):
        columns = range(first // size * size // block, last // block + 1)
        row = [inputs["block_table"][b][column] for column in columns]
        found += row + [ANY] * (_width(case) - len(row))
    return found


@ENGINE.adapts(
    _UTILS,
    "make_local_attention_virtual_batches",
    operation="sequence_chunks",
    dialect=having(
        VLLM,
        "sequence_chunks",
        of_chunks("local_starts", "the new rows up to the chunk's end", _starts),
        of_chunks("local_lens", "the keys from the chunk's begin on", _lens),
        Output(
            "local_table",
            "int32",
            "cut_column",
            "the blocks of the chunk",
            follows="chunk_sequences",
            shape=lambda case: (len(_parts(case)), _width(case)),
            expect=_blocks,
        ),
    ),
    domain=_FULL.having(block_sizes=(1, 2, 4, 8, 16), chunk_size=(16, 32, 64, 128), strided=True),
    async_tensor_h2d=_sent,
    gpu_sync_allowed=nullcontext,
    CommonAttentionMetadata=SimpleNamespace,
)
def local_attention(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Chunked local attention, whose chunks are whole blocks; each request has new tokens."""

    def launch(
        query_start_loc: Tensor,
        query_start_loc_cpu: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        block_size: int,
        chunk_size: int,
        num_reqs: int,
        num_tokens: int,
    ) -> dict[str, Tensor]:
        step = SimpleNamespace(
            query_start_loc=query_start_loc,
            query_start_loc_cpu=query_start_loc_cpu,
            seq_lens=seq_lens,
            block_table_tensor=block_table[:num_reqs],
            num_actual_tokens=num_tokens,
            slot_mapping=None,
        )
        found, _ = function(chunk_size, step, block_size)
        names = ("query_start_loc", "seq_lens", "block_table_tensor")
        parts = (getattr(found, name) for name in names)
        return dict(zip(("local_starts", "local_lens", "local_table"), parts, strict=True))

    return launch


def _sampled_rows(case: Case) -> list[int]:
    """Return the sampled rows, and the last of them on padding."""
    rows: list[int] = Inputs(case).call(draft_steps).logits_indices[: sum(num_logits(case))]
    return rows + rows[-1:] * 3


@ENGINE.adapts(
    _UTILS,
    "make_kv_sharing_fast_prefill_common_attn_metadata",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        Output(
            "sampled_starts",
            "int32",
            "",
            "the sampled rows up to the request",
            shape=lambda case: (len(case.batch.requests) + 1,),
            expect=lambda _, inputs: [0, *np.cumsum(num_logits(inputs.case)).tolist()],
        ),
        sampled_rows=held(_sampled_rows),
        most_sampled=lambda case: max(num_logits(case)),
    ),
    domain=SAMPLED,
    CommonAttentionMetadata=SimpleNamespace,
)
def fast_prefill(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Layers that share the cache of another one compute the sampled rows only; the list has padding."""

    def launch(
        query_start_loc: Tensor,
        sampled_rows: Tensor,
        num_reqs: int,
        num_logits: int,
        max_query_len: int,
        most_sampled: int,
        seq_lens: Tensor,
    ) -> dict[str, Tensor]:
        step = SimpleNamespace(
            max_query_len=max_query_len,
            logits_indices_padded=sampled_rows,
            num_logits_indices=num_logits,
            max_logits_per_req=most_sampled,
            num_reqs=num_reqs,
            query_start_loc=query_start_loc,
            seq_lens=seq_lens,
            max_seq_len=0,
            block_table_tensor=None,
            slot_mapping=None,
            seq_lens_cpu_upper_bound=None,
        )
        return {"sampled_starts": function(step).query_start_loc}

    return launch
