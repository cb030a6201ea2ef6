"""Drafts and samples of runner V2's states, some of whose requests have prompts left to prefill."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.dialects.vllm.drafts import num_drafts, num_logits
from cumae.properties.engines.vllm.drafts import (
    DRAFTS,
    STEPS,
    held,
    num_rejected,
    num_sampled,
    of_requests,
    state_rows,
)
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor
_BATCH = "vllm/v1/worker/gpu/input_batch.py"


def _num_states(case: Case) -> int:
    return 2 * len(case.batch.requests) + 1


def _prompt_lens(case: Case) -> list[int]:
    """Return the prompt of each request: none, up to its first sampled row, up to its end, or longer."""
    rows = zip(case.batch.requests, num_logits(case), strict=True)
    kinds = [(0, r.seq_len - sampled + 1, r.seq_len, r.seq_len + 1) for r, sampled in rows]
    return [lens[b % 4] for b, lens in enumerate(kinds)]


def _prompts_of_states(case: Case) -> list[int]:
    found = [0] * _num_states(case)
    for row, length in zip(state_rows(case), _prompt_lens(case), strict=True):
        found[row] = length
    return found


def _sampled_id(row: int) -> int:
    return 1000 + row


def _draft_id(row: int, number: int) -> int:
    return 1_000_000 + 100 * row + number


def _drafts_of_states(case: Case) -> Any:
    """Return the draft tokens of each state."""
    most = range(case.options.drafts.max_drafts)
    rows = [[_draft_id(row, number) for number in most] for row in range(_num_states(case))]
    return np.array(rows, dtype=np.int32).reshape(len(rows), len(most))


def _ids(_: Any, inputs: Inputs) -> list[Any]:
    """Return the ids behind each prompt: the last sampled token's, then the drafts; others stay."""
    case, found = inputs.case, list[Any]([UNTOUCHED] * inputs.case.batch.num_tokens)
    steps = zip(case.batch.requests, state_rows(case), _prompt_lens(case), num_drafts(case), strict=True)
    for b, (request, row, prompt, drafts) in enumerate(steps):
        stop = inputs["cu_seqlens_q"][b + 1]
        if request.seq_len > prompt:
            found[stop - drafts : stop] = [_draft_id(row, number) for number in range(drafts)]
            if request.seq_len - drafts > prompt:
                found[stop - drafts - 1] = _sampled_id(row)
    return found


def _kept(values: Callable[[Case], list[int]]) -> Callable[[Inputs], list[int]]:
    """Return the values, 0 for requests that still prefill their prompts."""

    def expect(inputs: Inputs) -> list[int]:
        case = inputs.case
        rows = zip(case.batch.requests, _prompt_lens(case), values(case), strict=True)
        return [0 if request.seq_len < prompt else value for request, prompt, value in rows]

    return expect


_STATES = replace(
    DRAFTS.extend(
        prompts_of_states=held(_prompts_of_states),
        sampled_of_states=held(lambda case: [_sampled_id(row) for row in range(_num_states(case))]),
        drafts_of_states=_drafts_of_states,
    ),
    outputs={
        "draft_steps": (
            *(one for one in DRAFTS.outputs["draft_steps"] if one.name != "num_rejected"),
            Output(
                "input_ids",
                "int32",
                "live_token",
                "the last sampled token, then the drafts",
                shape=lambda case: (case.batch.num_tokens,),
                expect=_ids,
            ),
            of_requests("num_kept", "tokens kept, none of a prompt's chunk", _kept(num_sampled)),
            of_requests("num_rejected", "drafts rejected, none of a prompt's chunk", _kept(num_rejected)),
        ),
    },
)


@ENGINE.adapts(
    _BATCH, "combine_sampled_and_draft_tokens", operation="draft_steps", dialect=_STATES, domain=STEPS
)
def combine_sampled_and_draft_tokens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Rows that are sampled, and the ids of sampled and of draft tokens."""

    def launch(
        input_ids: Tensor,
        idx_mapping: Tensor,
        sampled_of_states: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        prompts_of_states: Tensor,
        drafts_of_states: Tensor,
        cu_num_logits: Tensor,
        num_logits: int,
    ) -> dict[str, Tensor]:
        step = (idx_mapping, sampled_of_states, query_start_loc, seq_lens, prompts_of_states)
        rows = function(input_ids, *step, drafts_of_states, cu_num_logits, num_logits)
        return {"logits_indices": rows.int()}

    return launch


@ENGINE.adapts(_BATCH, "get_num_sampled_and_rejected", operation="draft_steps", dialect=_STATES, domain=STEPS)
def get_num_sampled_and_rejected(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Tokens that are kept and drafts that are rejected."""

    def launch(
        num_sampled: Tensor,
        seq_lens: Tensor,
        cu_num_logits: Tensor,
        idx_mapping: Tensor,
        prompts_of_states: Tensor,
    ) -> dict[str, Tensor]:
        step = (seq_lens, cu_num_logits, idx_mapping, prompts_of_states)
        kept, rejected = function(num_sampled.clone(), *step)
        return {"num_kept": kept, "num_rejected": rejected}

    return launch
