"""Later steps of a draft model, each from the one before."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import VLLM, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.arrays import int32
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


def _step(case: Case) -> int:
    """Return the number of the draft, of three: one or two are to come."""
    return len(case.batch.requests) % 2


def _hidden_size(case: Case) -> int:
    """Return the numbers of a hidden state, in a small step more than a tile of them."""
    return 1030 if len(case.batch.requests) < 4 else 5


def _hidden_row(b: int, case: Case) -> list[int]:
    return [7 * b + i for i in range(_hidden_size(case))]


def _hidden_rows(case: Case) -> list[list[int]]:
    return [_hidden_row(b, case) for b in range(len(case.batch.requests))]


def _drafts_row(b: int, case: Case) -> list[Any]:
    return [100 + b if column == _step(case) else UNTOUCHED for column in range(3)]


def _beside(
    name: str, rule: str, width: Callable[[Case], int], row: Callable[[int, Case], list[Any]]
) -> Output:
    """Return rows of numbers that the function writes beside positions."""
    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows="position_ids",
        shape=lambda case: (len(case.batch.requests), width(case)),
        expect=lambda _, inputs: [
            value for b in range(len(inputs.case.batch.requests)) for value in row(b, inputs.case)
        ],
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
        _beside("next_ids", "the id of the new draft", lambda case: 1, lambda b, _: [100 + b]),
        _beside("drafts_of_requests", "the new draft in the column of the step", lambda case: 3, _drafts_row),
        _beside("next_hidden", "the hidden state of the new draft", _hidden_size, _hidden_row),
        new_drafts=int32(lambda case: [100 + b for b in range(len(case.batch.requests))]),
        new_hidden=int32(_hidden_rows),
        draft_step=_step,
        max_model_len=_limit,
    ),
    domain=UNPADDED.having(
        phases=("decode",), max_query_len=1, empty_requests=False, min_tokens=1, max_requests=512
    ),
)
def next_draft_inputs(function: Any) -> Callable[..., None]:
    """Position and length of each request's next draft, in place; with two drafts to come and with one."""

    def launch(
        max_model_len: int,
        num_reqs: int,
        new_drafts: Tensor,
        new_hidden: Tensor,
        draft_step: int,
        next_positions: Tensor,
        next_lens: Tensor,
        next_ids: Tensor,
        drafts_of_requests: Tensor,
        next_hidden: Tensor,
    ) -> None:
        buffers = SimpleNamespace(input_ids=next_ids, positions=next_positions, seq_lens=next_lens)
        step = torch.tensor(draft_step, device=new_drafts.device)
        outputs = (drafts_of_requests, next_hidden, buffers, next_positions.clone())
        function(new_drafts, step, new_hidden, *outputs, num_reqs, max_model_len, 3)

    return launch
