"""Later steps of a draft model, each from the one before."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import VLLM, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, UNPADDED

Tensor = torch.Tensor


def _limit(case: Case) -> int:
    """Return the length of the model: in some steps, the longest context fills it."""
    return max(r.context_len for r in case.batch.requests) if len(case.batch.requests) % 2 else 2**30


def _int_before(values: Callable[[Case], list[int]], dtype: str) -> Callable[[Inputs], Ints]:
    return lambda inputs: ints(values(inputs.case), dtype, "zero")


def _advanced(name: str, dtype: str, rule: str, values: Any, before: Any) -> Output:
    return Output(
        name,
        dtype,
        "live_request",
        rule,
        follows="position_ids",
        shape=lambda case: (len(case.batch.requests),),
        expect=values,
        before=_int_before(before, dtype),
    )


@ENGINE.adapts(
    "vllm/v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py",
    "update_draft_inputs",
    operation="position_ids",
    dialect=having(
        VLLM,
        "position_ids",
        _advanced(
            "next_positions",
            "int64",
            "the position, at most the last one of the model",
            lambda answer, inputs: [min(p, _limit(inputs.case) - 1) for p in answer.position_ids],
            lambda case: [r.context_len - 1 for r in case.batch.requests],
        ),
        _advanced(
            "next_lens",
            "int32",
            "the position plus one, at most the length of the model",
            lambda answer, inputs: [min(p + 1, _limit(inputs.case)) for p in answer.position_ids],
            lambda case: [r.context_len for r in case.batch.requests],
        ),
        max_model_len=_limit,
    ),
    domain=UNPADDED.having(
        phases=("decode",), max_query_len=1, empty_requests=False, min_tokens=1, max_requests=512
    ),
)
def next_draft_inputs(function: Any) -> Callable[..., None]:
    """Position and length of each request's next draft, in place; with two drafts to come and with one."""

    def launch(max_model_len: int, num_reqs: int, next_positions: Tensor, next_lens: Tensor) -> None:
        like = next_lens
        drafts = like.new_zeros(num_reqs, 3)
        hidden = like.new_zeros(num_reqs, 5)
        buffers = SimpleNamespace(
            input_ids=like.new_zeros(num_reqs), positions=next_positions, seq_lens=next_lens
        )
        step = torch.tensor(num_reqs % 2, device=like.device)
        sources = (like.new_zeros(num_reqs), step, hidden, drafts, hidden.clone(), buffers)
        function(*sources, next_positions.clone(), num_reqs, max_model_len, 3)

    return launch
