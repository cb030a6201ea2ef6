"""Samples by sampled row: from ragged to padded lists and back, and what stands at the sampled rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs, draft_steps
from cumae.properties.dialects import Output
from cumae.properties.dialects.vllm.drafts import num_drafts, num_logits
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held, of_requests, state_rows
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import (
    VOCABULARY,
    kept_ids,
    kept_lens,
    num_states,
    padded_samples,
)

Tensor = torch.Tensor


def _flat(_: Any, inputs: Inputs) -> list[Any]:
    rows = zip(kept_ids(inputs.case), num_logits(inputs.case), strict=True)
    return [token for row, size in rows for token in (*row, *[UNTOUCHED] * (size - len(row)))]


_SAMPLER = "vllm/v1/worker/gpu/spec_decode/rejection_sampler.py"


@ENGINE.adapts(
    _SAMPLER,
    "_flatten_sampled_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        Output(
            "flat_sampled",
            "int32",
            "live_logit",
            "the kept tokens of each request from its first sampled row on",
            shape=lambda case: (sum(num_logits(case)),),
            expect=_flat,
        ),
        samples=padded_samples,
        num_kept=held(kept_lens),
    ),
    domain=STEPS,
)
def flatten_sampled(kernel: Any) -> Callable[..., None]:
    """Runner V2: kept tokens in the places of their logits; other places stay."""

    def launch(
        samples: Tensor, num_kept: Tensor, cu_num_logits: Tensor, num_reqs: int, flat_sampled: Tensor
    ) -> None:
        kernel[(num_reqs,)](flat_sampled, samples, samples.stride(0), num_kept, cu_num_logits)

    return launch


def _prompt_lens(case: Case) -> list[int]:
    """Return the prompt of each request: up to its first sampled row or one more, or none."""
    rows = zip(case.batch.requests, num_logits(case), strict=True)
    return [(r.seq_len - n, r.seq_len - n + 1, 0)[b % 3] for b, (r, n) in enumerate(rows)]


def _prompts_of_states(case: Case) -> Any:
    found = np.zeros(num_states(case), dtype=np.int32)
    found[state_rows(case)] = _prompt_lens(case)
    return found


def _id_of(row: int) -> int:
    return 7 * row + 3


def _gathered_ids(answer: Any, inputs: Inputs) -> list[int]:
    """Return the id of each sampled row; -1 for a draft of a request whose first one lies in its prompt."""
    case, found = inputs.case, list[int]()
    rows = iter(answer.logits_indices)
    steps = zip(case.batch.requests, num_drafts(case), _prompt_lens(case), strict=True)
    for request, drafts, prompt in steps:
        for number in range(drafts + 1):
            first = request.seq_len - drafts - 1
            row = next(rows)
            found.append(-1 if number and first < prompt else _id_of(row))
    return found


def _gathered_positions(answer: Any, inputs: Inputs) -> list[int]:
    count = sum(num_logits(inputs.case))
    return [inputs["position_ids"][row] for row in answer.logits_indices[:count]]


def _of_logits(name: str, dtype: str, expect: Callable[[Any, Inputs], list[int]]) -> Output:
    rule = "the value at the sampled row"
    return Output(name, dtype, "live_logit", rule, shape=lambda case: (sum(num_logits(case)),), expect=expect)


@ENGINE.adapts(
    _SAMPLER,
    "gather_draft_sampled",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _of_logits("draft_sampled", "int32", _gathered_ids),
        _of_logits("sampled_positions", "int64", _gathered_positions),
        prompts_of_states=_prompts_of_states,
        ids_of_rows=held(lambda case: [_id_of(row) for row in range(case.batch.num_tokens)]),
        sampled_rows=held(
            lambda case: Inputs(case).call(draft_steps).logits_indices[: sum(num_logits(case))]
        ),
        rows_of_logits=held(
            lambda case: [
                row for row, n in zip(state_rows(case), num_logits(case), strict=True) for _ in range(n)
            ]
        ),
        places_of_logits=held(lambda case: [i for n in num_logits(case) for i in range(n)]),
    ),
    domain=STEPS,
)
def gather_draft_sampled(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V2: id and position of each sampled row; placeholders of a prompt's first step are -1."""

    def launch(
        ids_of_rows: Tensor,
        positions: Tensor,
        sampled_rows: Tensor,
        rows_of_logits: Tensor,
        places_of_logits: Tensor,
        prompts_of_states: Tensor,
    ) -> dict[str, Tensor]:
        step = (sampled_rows, rows_of_logits, places_of_logits, prompts_of_states)
        ids, places = function(ids_of_rows, positions, *step)
        return {"draft_sampled": ids, "sampled_positions": places}

    return launch


def _next_ids(inputs: Inputs) -> list[int]:
    rows = zip(_discarded(inputs.case), kept_ids(inputs.case), strict=True)
    return [row[-1] if row and not out else 100 + b for b, (out, row) in enumerate(rows)]


def _discarded(case: Case) -> list[bool]:
    return [b % 5 == 4 for b in range(len(case.batch.requests))]


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "eagle_prepare_next_token_padded_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        of_requests("next_token_ids", "the last token kept, the backup without one", _next_ids),
        of_requests(
            "valid_sampled_tokens_count",
            "the tokens kept, none of a request that is discarded",
            lambda inputs: [
                0 if out else kept
                for out, kept in zip(_discarded(inputs.case), kept_lens(inputs.case), strict=True)
            ],
        ),
        samples=padded_samples,
        discarded=lambda case: np.array(_discarded(case), dtype=bool),
        backup=held(lambda case: [100 + b for b in range(len(case.batch.requests))]),
    ),
    domain=STEPS,
)
def eagle_prepare_next_token_padded(kernel: Any) -> Callable[..., None]:
    """Runner V1: the token from which each request drafts, and how many it keeps."""

    def launch(
        samples: Tensor,
        discarded: Tensor,
        backup: Tensor,
        num_reqs: int,
        num_speculative_tokens: int,
        next_token_ids: Tensor,
        valid_sampled_tokens_count: Tensor,
    ) -> None:
        width = num_speculative_tokens + 1
        tokens = (samples, discarded, backup, next_token_ids, valid_sampled_tokens_count)
        tile = 1 << num_speculative_tokens.bit_length()
        kernel[(num_reqs,)](*tokens, VOCABULARY, width, num_reqs, samples.stride(0), BLOCK_SIZE_TOKENS=tile)

    return launch
