"""Inputs of several draft modules: tokens before the step are computed again in place of rejected ones."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.vllm.drafts import num_drafts
from cumae.properties.engines.known import Known
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.draft_prefills import (
    PADDED,
    behind_requests,
    id_of,
    num_tokens,
    output,
    padded,
    prompt_id,
    sampled_id,
    target_step,
)
from cumae.properties.engines.vllm.drafts import DRAFTS, held, state_rows
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import num_states

Tensor = torch.Tensor
_MTP = "vllm/v1/worker/gpu/spec_decode/multi_module_mtp/speculator.py"
_GROUPS = 2


def _steps(case: Case) -> int:
    """Return the drafts of a step, as many as there are modules: one at least."""
    return max(case.options.drafts.max_drafts, 1)


def _rejected(case: Case) -> list[int]:
    """Return the drafts that each request rejects; only a request with context has drafts."""
    rows = zip(case.batch.requests, num_drafts(case), strict=True)
    return [drafts - b % 2 * (drafts // 2) if r.context_len else 0 for b, (r, drafts) in enumerate(rows)]


def _fewer_rejected(case: Case) -> list[int]:
    """Return drafts of which no more are rejected than can be replaced by tokens of the context."""
    rows = zip(case.batch.requests, _rejected(case), strict=True)
    return [min(rejected, request.context_len + 1) for request, rejected in rows]


def _kept(case: Case, rejected: list[int]) -> list[int]:
    """Return the sampled tokens: none where a prompt goes on, which rejects nothing."""
    rows = zip(num_drafts(case), rejected, strict=True)
    return [0 if not r and b % 3 == 2 else drafts + 1 - r for b, (drafts, r) in enumerate(rows)]


def _again(case: Case, rejected: list[int]) -> list[int]:
    """Return the tokens of the context that are computed again: one less than rejected, all at most."""
    rows = zip(case.batch.requests, rejected, strict=True)
    return [min(max(r - 1, 0), request.context_len) for request, r in rows]


def _cached_id(state: int, place: int) -> int:
    return -2_000_000 - 100 * state - place


def _cached(case: Case) -> Any:
    """Return the ids of each state's last tokens: they end at the context."""
    width = _steps(case) - 1
    rows = [[_cached_id(state, place) for place in range(width)] for state in range(num_states(case))]
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _prompts(case: Case) -> Any:
    rows = [[prompt_id(s, i) for s in range(num_states(case))] for i in range(_steps(case))]
    return np.array(rows, dtype=np.int32)


def _dialect(rejects: Callable[[Case], list[int]]) -> Any:
    """Return the names of a step in which requests reject so many drafts."""

    def rows(inputs: Inputs) -> list[tuple[int, int, int]]:
        """Return the first row of each request, its tokens computed again, and its kept ones."""
        case, starts = inputs.case, inputs["cu_seqlens_q"]
        lens = zip(case.batch.requests, rejects(case), _again(case, rejects(case)), strict=True)
        return [(starts[b], again, r.query_len - n) for b, (r, n, again) in enumerate(lens)]

    def ids(inputs: Inputs) -> list[Any]:
        case, found = inputs.case, list[Any]([UNTOUCHED] * inputs.case.batch.num_tokens)
        for b, (start, again, kept) in enumerate(rows(inputs)):
            state, width = state_rows(case)[b], _steps(case) - 1
            behind = sampled_id(state) if _kept(case, rejects(case))[b] else prompt_id(state)
            before = [_cached_id(state, place) for place in range(width - again, width)]
            new = [*before, *map(id_of, range(start + 1, start + kept)), behind]
            found[start : start + len(new)] = new
        return found

    def positions(inputs: Inputs) -> list[Any]:
        found: list[Any] = [UNTOUCHED] * inputs.case.batch.num_tokens
        for request, (start, again, kept) in zip(inputs.case.batch.requests, rows(inputs), strict=True):
            context = request.context_len
            found[start : start + again + kept] = range(context - again, context + kept)
        return found

    def lens(inputs: Inputs) -> list[int]:
        pairs = zip(inputs.case.batch.requests, rows(inputs), strict=True)
        return behind_requests(inputs.case, [r.seq_len - again for r, (_, again, _) in pairs])

    def last(inputs: Inputs) -> list[int]:
        found = [start + again + kept - 1 for start, again, kept in rows(inputs)]
        return behind_requests(inputs.case, found)

    def overrides(inputs: Inputs) -> list[int]:
        case = inputs.case
        places = zip(state_rows(case), _kept(case, rejects(case)), strict=True)
        width = range(1, _steps(case))
        return [-1 if kept else prompt_id(state, i) for state, kept in places for i in width]

    def starts_before(inputs: Inputs) -> Ints:
        count = len(inputs.case.batch.requests) + 1
        starts = [*inputs["cu_seqlens_q"][:count], *[-9] * inputs.case.layout.num_padding_requests]
        return ints(starts, "int32", "zero")

    return having(
        DRAFTS,
        "draft_steps",
        output("draft_ids", "int32", "live_token", "cached ids, then those behind each row", num_tokens, ids),
        output("draft_positions", "int64", "live_token", "neighbours up to the last", num_tokens, positions),
        output("draft_lens", "int32", "", "less the tokens computed again, 0 on padding", padded, lens),
        output("last_rows", "int64", "", "the last row with a token, 0 on padding", padded, last),
        Output(
            "overrides",
            "int64",
            "",
            "the tokens of a prompt behind the step, -1 for a request that samples",
            shape=lambda case: (len(case.batch.requests), _steps(case) - 1),
            expect=lambda _, inputs: overrides(inputs),
        ),
        Output(
            "draft_starts",
            "int32",
            "",
            "the last one on padding",
            shape=lambda case: (padded(case) + 1,),
            expect=lambda _, inputs: inputs["cu_seqlens_q"],
            before=starts_before,
        ),
        states=held(state_rows),
        ids_of_rows=held(lambda case: [id_of(row) for row in range(case.batch.num_tokens)]),
        num_kept=held(lambda case: _kept(case, rejects(case))),
        num_taken_back=held(rejects),
        sampled_of_states=held(lambda case: [sampled_id(row) for row in range(num_states(case))]),
        prompts_of_states=_prompts,
        cached_ids=_cached,
        num_modules=_steps,
    )


def _launched(function: Any) -> Callable[..., None]:
    def launch(
        states: Tensor,
        ids_of_rows: Tensor,
        positions: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        num_reqs: int,
        num_reqs_padded: int,
        num_modules: int,
        cached_ids: Tensor,
        num_kept: Tensor,
        num_taken_back: Tensor,
        sampled_of_states: Tensor,
        prompts_of_states: Tensor,
        draft_ids: Tensor,
        draft_positions: Tensor,
        draft_lens: Tensor,
        draft_starts: Tensor,
        last_rows: Tensor,
        overrides: Tensor,
    ) -> None:
        step = target_step(states, ids_of_rows, positions, query_start_loc, seq_lens, num_reqs)
        buffers = SimpleNamespace(
            input_ids=draft_ids, positions=draft_positions, query_start_loc=draft_starts, seq_lens=draft_lens
        )
        samples = (cached_ids, num_kept, num_taken_back, sampled_of_states, prompts_of_states)
        sizes = (num_reqs_padded, num_modules)
        function(num_reqs, step, *samples, overrides, buffers, last_rows, *sizes)

    return launch


@ENGINE.adapts(
    _MTP,
    "prepare_input_buffers",
    operation="draft_steps",
    dialect=_dialect(_fewer_rejected),
    domain=PADDED,
)
def mtp_inputs(function: Any) -> Callable[..., None]:
    """The first module's inputs, where the context has enough tokens to compute again."""
    return _launched(function)


@ENGINE.adapts(
    _MTP,
    "prepare_input_buffers",
    operation="draft_steps",
    dialect=_dialect(_rejected),
    domain=PADDED,
    known=Known(
        "vllm-mtp_inputs_of_short_prompts",
        "behind a prompt of fewer tokens than are computed again, positions and lengths become negative",
        {"max_drafts": (0, 1, 2)},
    ),
)
def mtp_inputs_of_short_prompts(function: Any) -> Callable[..., None]:
    """The same behind prompts of any length."""
    return _launched(function)
