"""Metamorphic facts follow the axis of an output, and what its oracle keeps; they lose no operation's."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct import cumae as plain
from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.dialects import CUMAE, Output
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


CASE = Case(
    Batch(
        (
            Request(3, 2, (4, 1)),
            Request(5, 1, (7, 2), "decode"),
            Request(1, 3, (5,)),
            Request(6, 1, (9, 3), "decode"),
        ),
        4,
    ),
    Layout(num_padding_tokens=1),
    Options.of(topk=3),
)
EMPTY, ORDER, FIRST_HALF, SECOND_HALF, FIRST_CHUNK, SECOND_CHUNK, RENAMED = range(1, 8)
"""Which of the calls of the check is wrong: the case itself is the first one, and right."""

OF_CALLS: dict[int, dict[str, tuple[str, ...]]] = {
    EMPTY: {
        "sequence_layout": (
            "cu_seqlens_q",
            "cu_seqlens_k",
            "token_to_request",
            "max_seqlen_q",
            "max_seqlen_k",
        ),
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "prefix_interleave": ("keys",),
        "cache_write": ("cache",),
        "sparse_schedule": ("work_indptr", "work_token", "work_start", "work_stop", "num_splits"),
        "topk_to_slots": ("selected_slots",),
        "compact_topk_slots": ("compact_slots", "num_valid"),
        "chunked_context": (
            "chunk_starts",
            "chunk_lens",
            "chunk_cu_seqlens",
            "chunk_totals",
            "chunk_maxima",
        ),
        "grouped_topk": ("expert_ids",),
        "sequence_chunks": ("chunk_sequences", "chunk_numbers", "chunk_offsets"),
        "flat_decodes": ("key_lens", "selected_lens", "selected_indptr"),
    },
    ORDER: {
        "sequence_layout": ("cu_seqlens_q", "cu_seqlens_k"),
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "chunked_context": ("chunk_lens",),
        "grouped_topk": ("expert_ids",),
        "sequence_chunks": ("chunk_numbers", "chunk_offsets"),
        "flat_decodes": ("key_lens", "selected_indptr"),
    },
    FIRST_HALF: {
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "prefix_interleave": ("keys",),
        "grouped_topk": ("expert_ids",),
    },
    SECOND_HALF: {
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "grouped_topk": ("expert_ids",),
    },
    FIRST_CHUNK: {
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "grouped_topk": ("expert_ids",),
    },
    SECOND_CHUNK: {
        "position_ids": ("position_ids",),
        "slot_mapping": ("slot_mapping",),
        "causal_windows": ("ks", "ke"),
        "grouped_topk": ("expert_ids",),
    },
    RENAMED: {
        "slot_mapping": ("slot_mapping",),
        "topk_to_slots": ("selected_slots",),
        "compact_topk_slots": ("compact_slots",),
    },
}
LINES = [
    (call, operation, output)
    for call, operations in OF_CALLS.items()
    for operation, outputs in operations.items()
    for output in outputs
]


def wrong_in_one_call(operation: str, output: str, call: int) -> Callable[..., Any]:
    kernel = load_function(OPERATIONS[operation].kernels[0])
    calls: list[None] = []

    @wraps(kernel)
    def launch(**arguments: Any) -> None:
        kernel(**arguments)
        calls.append(None)
        if len(calls) - 1 == call:
            buffer = arguments[output]
            if output in ("keys", "cache"):
                buffer.copy_(buffer + 1)
            elif output == "expert_ids":
                buffer.copy_((buffer + 1) % arguments["bias"].numel())
            else:
                buffer += torch.arange(1, 1 + buffer.numel(), device=buffer.device).reshape(buffer.shape)

    return launch


@pytest.mark.parametrize(("call", "operation", "output"), LINES)
def test_each_fact_of_each_operation_is_held(call: int, operation: str, output: str) -> None:
    right = binding_of(wrong_in_one_call(operation, output, -1), operation)
    assert CHECKS["keeps_facts"](Trial(right, CASE, DEVICE)) is None
    binding = binding_of(wrong_in_one_call(operation, output, call), operation)
    finding = CHECKS["keeps_facts"](Trial(binding, CASE, DEVICE))
    assert finding is not None
    assert f"`{output}`" in finding.message


def test_a_bound_that_moves_with_its_requests_is_no_break() -> None:
    """Lengths of windows stay; where they begin does not."""
    binding = binding_of(load_function("cumae.gpu_impl:write_causal_windows"), "causal_windows")
    assert CHECKS["keeps_facts"](Trial(binding, CASE, DEVICE)) is None


def _live(name: str) -> Output:
    return Output(
        f"live_{name}",
        follows=name,
        shape=lambda case: (case.batch.num_tokens,),
        expect=lambda answer, inputs: getattr(answer, name)[: inputs["num_tokens"]],
    )


BOUNDS_TWICE = replace(CUMAE, outputs={"causal_windows": (_live("ks"), _live("ke"))})
"""A dialect that holds the bounds of windows with padding and without it."""


def bounds_twice(*, right: bool) -> Callable[..., dict[str, torch.Tensor]]:
    def call(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        cu_seqlens_k: torch.Tensor,
        is_prefill: torch.Tensor,
        compress_ratio: int,
        window: int,
        world: int,
        rank: int,
        interleave: int,
        num_tokens: int,
        num_requests: int,
    ) -> dict[str, torch.Tensor]:
        tokens = (token_to_request, position_ids, cu_seqlens_k, is_prefill)
        ks, ke = plain.causal_windows(*tokens, compress_ratio, window, world, rank, interleave)
        live_ks, live_ke = ks[:num_tokens].clone(), ke[:num_tokens].clone()
        if not right and num_requests > 3:
            live_ke[:] += 1
        return {"ks": ks, "ke": ke, "live_ks": live_ks, "live_ke": live_ke}

    return call


def test_starts_and_ends_are_paired_by_length_where_there_are_several() -> None:
    verdict = cumae.check(
        bounds_twice(right=True), "causal_windows", dialect=BOUNDS_TWICE, examples=30, save_to=None
    )
    assert verdict.ok, verdict.failure
    verdict = cumae.check(
        bounds_twice(right=False),
        "causal_windows",
        dialect=BOUNDS_TWICE,
        checks=("keeps_facts",),
        examples=60,
        save_to=None,
    )
    assert verdict.failure is not None
    assert "`live_ke`" in verdict.failure.finding.message
