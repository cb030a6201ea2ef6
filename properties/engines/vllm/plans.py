"""Cached contexts packed into chunks of a workspace."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case
from cumae.properties.engines.parts import write_parts
from cumae.properties.engines.vllm.engine import ENGINE, STEPS
from cumae.properties.operations.plans import any_chunks

Tensor = torch.Tensor
_ATTENTION = "vllm/model_executor/layers/attention/mla_attention.py"
PLANNED = STEPS.having(phases=("prefill",), padding="none")


def _one(case: Case) -> int:
    return 1


@ENGINE.adapts(
    _ATTENTION,
    "plan_mla_context_chunks",
    operation="any_chunks",
    dialect="cumae",
    domain=PLANNED.having(world=(1,)),
)
def plan_mla_context_chunks(function: Any) -> Callable[..., None]:
    """The planner, on one rank."""

    def launch(
        context_lens_cpu: Tensor,
        workspace_tokens: int,
        block_size: int,
        part_chunk: Tensor,
        part_request: Tensor,
        part_start: Tensor,
        part_stop: Tensor,
    ) -> None:
        longest = workspace_tokens // block_size * block_size
        plans = function(context_lens_cpu.tolist(), workspace_tokens, longest, block_size, lambda rows: rows)
        parts = (
            (chunk, plan.request_start + i, start, start + length)
            for chunk, plan in enumerate(plans)
            for i, (start, length) in enumerate(zip(plan.starts, plan.seq_lens, strict=True))
        )
        write_parts(parts, part_chunk, part_request, part_start, part_stop)

    return launch


@ENGINE.adapts(
    _ATTENTION,
    "build_mla_chunked_context_metadata",
    operation="any_chunks",
    dialect="cumae",
    domain=PLANNED,
    PIN_MEMORY=False,
)
def mla_context_chunks(function: Any) -> Callable[..., None]:
    """The chunks of the metadata, whose starts are those of a rank."""
    return _built(function, is_aligned=True)


@ENGINE.adapts(
    _ATTENTION,
    "build_mla_chunked_context_metadata",
    operation=any_chunks(alignment=_one),
    dialect="cumae",
    domain=PLANNED.having(world=(1,)),
    PIN_MEMORY=False,
)
def mla_context_chunks_of_tokens(function: Any) -> Callable[..., None]:
    """The chunks of the metadata for a gather that may begin within a block."""
    launch = _built(function, is_aligned=False)

    def on_one_rank(
        context_lens_cpu: Tensor,
        cu_seqlens_q: Tensor,
        workspace_tokens: int,
        block_size: int,
        part_chunk: Tensor,
        part_request: Tensor,
        part_start: Tensor,
        part_stop: Tensor,
    ) -> None:
        parts = (part_chunk, part_request, part_start, part_stop)
        launch(context_lens_cpu, cu_seqlens_q, workspace_tokens, block_size, 1, 1, *parts)

    return on_one_rank


def _built(function: Any, *, is_aligned: bool) -> Callable[..., None]:
    def launch(
        context_lens_cpu: Tensor,
        cu_seqlens_q: Tensor,
        workspace_tokens: int,
        block_size: int,
        world: int,
        interleave: int,
        part_chunk: Tensor,
        part_request: Tensor,
        part_start: Tensor,
        part_stop: Tensor,
    ) -> None:
        built = function(
            context_lens_cpu=context_lens_cpu,
            prefill_query_start_loc_cpu=cu_seqlens_q.cpu(),
            chunked_prefill_workspace=torch.empty(0),
            chunked_prefill_workspace_size=workspace_tokens * world,
            block_size=block_size,
            align_chunk_to_block=is_aligned,
            device=part_chunk.device,
            dcp_world_size=world,
            dcp_local_block_size=interleave,
            dcp_virtual_block_size=interleave * world,
        )
        parts = [
            (chunk.index, request, start * world, start * world + length)
            for chunk in (built.chunks if built is not None else ())
            for request, start, length in zip(
                range(chunk.request_slice.start, chunk.request_slice.stop),
                chunk.starts.tolist(),
                chunk.seq_lens.tolist(),
                strict=True,
            )
        ]
        write_parts(parts, part_chunk, part_request, part_start, part_stop)

    return launch
