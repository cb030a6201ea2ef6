"""Steps seen as others: local attention as virtual requests, sampled rows alone, decodes and prefills apart."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, Case, Inputs, SequenceChunks, causal_windows, draft_steps, sequence_chunks
from cumae.properties.dialects import VLLM, Output
from cumae.properties.dialects.vllm.drafts import num_logits
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


def _local(name: str, rule: str, more: int, values: Callable[[Case], list[int]]) -> Output:
    return Output(
        name,
        "int32",
        "cut",
        rule,
        follows="chunk_sequences",
        shape=lambda case: (len(_parts(case)) + more,),
        expect=lambda _, inputs: values(inputs.case),
    )


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
        _local("local_starts", "the new rows up to the chunk's end", 1, _starts),
        _local("local_lens", "the keys from the chunk's begin on", 0, _lens),
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
    """Layers that share the cache of another one compute only the sampled rows; three of the list are padding."""

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


def _threshold(case: Case) -> int:
    """Return the most tokens of a decode."""
    return 1 + len(case.batch.requests) % 4


def _ordered(case: Case) -> list[tuple[int, int]]:
    """Return context and new tokens of each request in vLLM's order: decodes, extends, new prompts."""
    lens = [(request.context_len, request.query_len) for request in case.batch.requests]
    return sorted(lens, key=lambda one: (one[0] == 0, one[1] > _threshold(case)))


def _ordered_starts(case: Case) -> list[int]:
    return [0, *np.cumsum([new for _, new in _ordered(case)]).tolist()]


def _int32(values: Callable[[Case], list[int]]) -> Callable[[Case], Any]:
    return lambda case: np.array(values(case), dtype=np.int32)


def _counts(case: Case) -> list[list[int]]:
    """Return requests and tokens of decodes, extends and new prompts, by the windows of the step.

    The step is cut in front of the first request with more tokens than a decode has, and in front of the first
    such prompt that is new.
    """
    contexts, lens = zip(*_ordered(case), strict=True)
    longer = [new > _threshold(case) for new in lens]
    prefills = [any(longer[: b + 1]) for b in range(len(lens))]
    fresh = [one and not context for one, context in zip(longer, contexts, strict=True)]
    prompts = [any(fresh[: b + 1]) for b in range(len(lens))]
    seen = [
        sum(stop > 0 for stop in causal_windows(contexts, lens, flags, sum(lens)).ke)
        for flags in (prefills, prompts)
    ]
    requests = [len(lens) - sum(prefills), sum(prefills) - sum(prompts), sum(prompts)]
    return [requests, [sum(lens) - seen[0], seen[0] - seen[1], seen[1]]]


def _two(case: Case) -> list[int]:
    return [part for first, *more in _counts(case) for part in (first, sum(more))]


def _counted(count: int, values: Callable[[Case], list[int]]) -> Output:
    return Output(
        "counts",
        "int64",
        "phase",
        "requests of each phase, then tokens",
        follows="ke",
        shape=lambda case: (count,),
        expect=lambda _, inputs: values(inputs.case),
    )


_ORDERED = VLLM.extend(
    ordered_starts=_int32(_ordered_starts),
    ordered_lens=_int32(lambda case: [sum(one) for one in _ordered(case)]),
    threshold=_threshold,
)


def _split(function: Any, starts: Tensor, lens: Tensor, threshold: int, longest: int) -> dict[str, Tensor]:
    step = SimpleNamespace(
        max_query_len=longest,
        num_reqs=len(lens),
        num_actual_tokens=int(starts[-1]),
        query_start_loc_cpu=starts,
        seq_lens_cpu_upper_bound=lens,
    )
    return {"counts": torch.tensor([int(one) for one in function(step, threshold)])}


@ENGINE.adapts(
    _UTILS,
    "split_decodes_and_prefills",
    operation="causal_windows",
    dialect=having(_ORDERED, "causal_windows", _counted(4, _two)),
    domain=_FULL,
)
def split_decodes_and_prefills(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Decodes of up to a number of tokens, which stand first; a short prompt in front is one of them."""

    def launch(
        ordered_starts: Tensor, ordered_lens: Tensor, threshold: int, max_query_len: int
    ) -> dict[str, Tensor]:
        return _split(function, ordered_starts, ordered_lens, threshold, max_query_len)

    return launch


@ENGINE.adapts(
    _UTILS,
    "split_decodes_prefills_and_extends",
    operation="causal_windows",
    dialect=having(_ORDERED, "causal_windows", _counted(6, lambda case: sum(_counts(case), []))),
    domain=_FULL,
)
def split_decodes_prefills_and_extends(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same, with prompts whose first tokens are cached apart from new ones."""

    def launch(
        ordered_starts: Tensor, ordered_lens: Tensor, threshold: int, max_query_len: int
    ) -> dict[str, Tensor]:
        return _split(function, ordered_starts, ordered_lens, threshold, max_query_len)

    return launch
