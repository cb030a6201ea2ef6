"""Chunks of cached prefixes as a step's metadata holds them."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import CUMAE, SGLANG, Input
from cumae.properties.engines.parts import write_parts
from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS
from cumae.properties.operations.plans import any_chunks

Tensor = torch.Tensor
_BATCH = "sglang/srt/model_executor/forward_batch_deepseek_mha_mixin.py"
_CAPACITY = SGLANG.inputs["chunk_capacity"]


class _Pool:
    """The pool of a model with latent rows."""


def _batch(kind: Any, prefix_lens: Tensor, prefix_lens_cpu: Tensor, capacity: int) -> Any:
    """Return the forward batch, with its chunks."""
    batch = kind()
    batch.batch_size = len(prefix_lens)
    batch.extend_prefix_lens, batch.extend_prefix_lens_cpu = prefix_lens, prefix_lens_cpu.tolist()
    batch.get_max_chunk_capacity = lambda: capacity
    batch.prepare_chunked_kv_indices = lambda *_: None  # kv_indices.py runs its kernel
    batch.prepare_chunked_prefix_cache_info(prefix_lens.device)
    return batch


@ENGINE.adapts(
    _BATCH,
    "ForwardBatchDeepSeekMHAMixin",
    operation="chunked_context",
    domain=EXTENDS,
    get_token_to_kv_pool=_Pool,
    MLATokenToKVPool=_Pool,
)
def prefix_cache_info(kind: Any) -> Callable[..., dict[str, Tensor]]:
    """Starts, lengths, running sums, totals and maxima of the chunks."""

    def launch(
        extend_prefix_lens: Tensor, extend_prefix_lens_cpu: Tensor, chunk_capacity: int
    ) -> dict[str, Tensor]:
        batch = _batch(kind, extend_prefix_lens, extend_prefix_lens_cpu, chunk_capacity)
        empty = extend_prefix_lens.new_empty(0, len(extend_prefix_lens)).int()
        if batch.num_prefix_chunks == 0:
            sums = extend_prefix_lens.new_empty(0, len(extend_prefix_lens) + 1).int()
            return dict(zip(_OUTPUTS, (empty, empty, sums, empty[:, 0], empty[:, 0]), strict=True))
        tensors = [batch.prefix_chunk_starts, batch.prefix_chunk_seq_lens, batch.prefix_chunk_cu_seq_lens]
        for numbers in (batch.prefix_chunk_num_tokens, batch.prefix_chunk_max_seq_lens):
            tensors.append(torch.tensor(numbers, dtype=torch.int32, device=empty.device))
        return dict(zip(_OUTPUTS, tensors, strict=True))

    return launch


_OUTPUTS = tuple(output.name for output in SGLANG.outputs["chunked_context"])


def _capacity(case: Case) -> int:
    capacity = _CAPACITY.hold(Inputs(case))
    assert isinstance(capacity, int)
    return capacity


@ENGINE.adapts(
    _BATCH,
    "ForwardBatchDeepSeekMHAMixin",
    operation=any_chunks(workspace=_capacity, alignment=lambda case: 1),
    dialect=CUMAE.extend(chunk_capacity=Input(_CAPACITY.hold, ("workspace",))),
    domain=EXTENDS,
    get_token_to_kv_pool=_Pool,
    MLATokenToKVPool=_Pool,
)
def prefix_cache_parts(kind: Any) -> Callable[..., None]:
    """The same chunks as a plan: parts of no token are left out, and a part may begin within a page."""

    def launch(
        context_lens: Tensor,
        context_lens_cpu: Tensor,
        chunk_capacity: int,
        part_chunk: Tensor,
        part_request: Tensor,
        part_start: Tensor,
        part_stop: Tensor,
    ) -> None:
        batch, rows = _batch(kind, context_lens, context_lens_cpu, chunk_capacity), []
        if batch.num_prefix_chunks:
            lens = batch.prefix_chunk_seq_lens_cpu
            where = lens.nonzero()
            starts = batch.prefix_chunk_starts_cpu[lens > 0]
            rows = torch.cat([where, starts[:, None], (starts + lens[lens > 0])[:, None]], dim=1).tolist()
        write_parts(map(tuple, rows), part_chunk, part_request, part_start, part_stop)

    return launch
