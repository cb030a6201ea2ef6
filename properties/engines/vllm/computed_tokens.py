"""Computed tokens of a step with drafts, corrected on the GPU by what the step before it accepted."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.vllm.drafts import num_drafts
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held, num_sampled
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import num_states

Tensor = torch.Tensor


def _places(case: Case) -> list[int]:
    """Return the place that each request of the next step had in this one, -1 for a new request.

    The requests change their order, some end, and there may be more than before.
    """
    found = list[int]()
    for b in reversed(range(len(case.batch.requests))):
        found += [[b], [b, -1], [-1, b], []][b % 4]
    return found


def _on_host(case: Case) -> list[int]:
    """Return the computed tokens as the host counts them: it takes every draft for accepted."""
    requests = case.batch.requests
    return [requests[b].seq_len if b >= 0 else 5 * row for row, b in enumerate(_places(case))]


def _sampled(case: Case) -> list[int]:
    """Return the tokens that each request keeps; without drafts none, if its prompt goes on, or one."""
    pairs = zip(num_sampled(case), num_drafts(case), strict=True)
    return [kept if drafts else b % 2 for b, (kept, drafts) in enumerate(pairs)]


def _computed(case: Case) -> list[int]:
    """Return the computed tokens: of requests with drafts, this step's context and the kept tokens."""
    kept, drafts = num_sampled(case), num_drafts(case)
    return [
        case.batch.requests[b].context_len + kept[b] if b >= 0 and drafts[b] else on_host
        for b, on_host in zip(_places(case), _on_host(case), strict=True)
    ]


def _accepted(case: Case) -> list[int]:
    kept, drafts = num_sampled(case), num_drafts(case)
    return [kept[b] if b >= 0 and drafts[b] else 1 for b in _places(case)]


def _all_states(inputs: Inputs) -> Ints:
    contexts = [request.context_len for request in inputs.case.batch.requests]
    return ints(contexts + [0] * (num_states(inputs.case) - len(contexts)), "int32", "zero")


def _in_place(
    name: str, rule: str, size: Callable[[Case], int], values: Callable[[Case], list[int]], before: Any
) -> Output:
    def expect(_: Any, inputs: Inputs) -> list[Any]:
        found = values(inputs.case)
        return found + [UNTOUCHED] * (size(inputs.case) - len(found))

    return Output(
        name,
        "int32",
        "next_request",
        rule,
        shape=lambda case: (size(case),),
        expect=expect,
        before=before,
    )


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "update_num_computed_tokens_for_batch_change",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _in_place(
            "computed_of_rows",
            "the computed tokens of each request of the next step",
            num_states,
            _computed,
            _all_states,
        ),
        _in_place(
            "accepted_of_rows",
            "the tokens that it kept, 1 without drafts",
            lambda case: len(_places(case)),
            _accepted,
            lambda inputs: ints([1] * len(_places(inputs.case)), "int32", "zero"),
        ),
        places=lambda case: np.array(_places(case), dtype=np.int64),
        drafts_before=held(lambda case: num_drafts(case) + [0] * (num_states(case) - len(num_drafts(case)))),
        sampled=held(_sampled),
        on_host=held(_on_host),
    ),
    domain=STEPS,
    current_platform=SimpleNamespace(simple_compile_backend="eager"),
)
def computed_after_drafts(function: Any) -> Callable[..., None]:
    """Runner V1: computed and accepted tokens after requests came, ended and moved, in place."""

    def launch(
        places: Tensor,
        sampled: Tensor,
        drafts_before: Tensor,
        on_host: Tensor,
        computed_of_rows: Tensor,
        accepted_of_rows: Tensor,
    ) -> None:
        function(computed_of_rows, accepted_of_rows, places, sampled, drafts_before, on_host)

    return launch
