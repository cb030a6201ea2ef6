"""The first step of a draft model: the target's step, its ids moved by one, without what was rejected."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held, state_rows
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import kept_lens, num_states, rejected_lens

Tensor = torch.Tensor
PADDED = STEPS.having(padding="written")


def id_of(row: int) -> int:
    """Return the id of the target's token at a row of its step."""
    return 10 * row + 1


def sampled_id(state: int) -> int:
    """Return the id of the last token that a state sampled."""
    return -1000 - state


def prompt_id(state: int, number: int = 0) -> int:
    """Return the id of a token of the prompt behind the step."""
    return -1_000_000 - 100 * state - number


def next_id(case: Case, b: int) -> int:
    """Return the id behind a request's kept tokens: the sampled one, or the next one of its prompt."""
    state = state_rows(case)[b]
    return sampled_id(state) if kept_lens(case)[b] else prompt_id(state)


def output(name: str, dtype: str, axis: str, rule: str, count: Callable[[Case], int], values: Any) -> Output:
    """Return an output of one dimension; ``values`` gets the inputs."""
    expect = lambda _, inputs: values(inputs)  # noqa: E731
    return Output(name, dtype, axis, rule, shape=lambda case: (count(case),), expect=expect)


def num_tokens(case: Case) -> int:
    """Return the live rows of the step."""
    return case.batch.num_tokens


def padded(case: Case) -> int:
    """Return the requests with padding."""
    return case.num_requests_padded


def behind_requests(case: Case, values: list[int], padding: int = 0) -> list[int]:
    """Return the values of live requests, then the padding."""
    return values + [padding] * case.layout.num_padding_requests


def kept_rows(inputs: Inputs) -> list[tuple[int, int]]:
    """Return the first row of each request, and one past the last that was kept."""
    starts, rejected = inputs["cu_seqlens_q"], rejected_lens(inputs.case)
    return [(starts[b], starts[b + 1] - n) for b, n in enumerate(rejected)]


def _shifted(inputs: Inputs) -> list[Any]:
    found: list[Any] = [UNTOUCHED] * inputs.case.batch.num_tokens
    for b, (start, stop) in enumerate(kept_rows(inputs)):
        found[start:stop] = [*(id_of(row) for row in range(start + 1, stop)), next_id(inputs.case, b)]
    return found


def _positions(inputs: Inputs) -> list[Any]:
    found: list[Any] = [UNTOUCHED] * inputs.case.batch.num_tokens
    for start, stop in kept_rows(inputs):
        found[start:stop] = inputs["position_ids"][start:stop]
    return found


TARGET: dict[str, Any] = {
    "states": held(state_rows),
    "ids_of_rows": held(lambda case: [id_of(row) for row in range(case.batch.num_tokens)]),
    "num_kept": held(kept_lens),
    "num_taken_back": held(rejected_lens),
    "sampled_of_states": held(lambda case: [sampled_id(row) for row in range(num_states(case))]),
}
"""The step of the target, and what was sampled in it."""


def target_step(
    states: Tensor, ids: Tensor, positions: Tensor, starts: Tensor, lens: Tensor, num_reqs: int
) -> SimpleNamespace:
    """Return the step of the target as its input batch."""
    return SimpleNamespace(
        num_reqs=num_reqs,
        num_tokens=len(ids),
        idx_mapping=states,
        input_ids=ids,
        positions=positions,
        query_start_loc=starts[: num_reqs + 1],
        query_start_loc_np=starts.cpu().numpy(),
        seq_lens=lens,
    )


def _prompts(case: Case) -> Any:
    return np.array([prompt_id(row) for row in range(num_states(case))], dtype=np.int32)


@ENGINE.adapts(
    "vllm/v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py",
    "prepare_prefill_inputs",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        output("draft_ids", "int32", "live_token", "the id behind the row", num_tokens, _shifted),
        output("draft_positions", "int64", "live_token", "that of the kept row", num_tokens, _positions),
        output(
            "draft_starts",
            "int32",
            "",
            "the target's, the last one on padding",
            lambda case: padded(case) + 1,
            lambda inputs: inputs["cu_seqlens_q"],
        ),
        output("draft_lens", "int32", "", "the target's, 0 on padding", padded, lambda i: i["seq_lens"]),
        output(
            "last_rows",
            "int64",
            "",
            "the last kept row, 0 on padding",
            padded,
            lambda inputs: behind_requests(inputs.case, [stop - 1 for _, stop in kept_rows(inputs)]),
        ),
        output("draft_step", "int64", "", "0", lambda case: 1, lambda inputs: [0]),
        prompts_of_states=_prompts,
        **TARGET,
    ),
    domain=PADDED,
)
def draft_prefill(function: Any) -> Callable[..., None]:
    """A draft model that reads the target's hidden states; rows of rejected tokens stay."""

    def launch(
        states: Tensor,
        ids_of_rows: Tensor,
        positions: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        num_reqs: int,
        num_reqs_padded: int,
        num_kept: Tensor,
        num_taken_back: Tensor,
        sampled_of_states: Tensor,
        prompts_of_states: Tensor,
        draft_ids: Tensor,
        draft_positions: Tensor,
        draft_starts: Tensor,
        draft_lens: Tensor,
        last_rows: Tensor,
        draft_step: Tensor,
    ) -> None:
        step = target_step(states, ids_of_rows, positions, query_start_loc, seq_lens, num_reqs)
        buffers = SimpleNamespace(
            input_ids=draft_ids, positions=draft_positions, query_start_loc=draft_starts, seq_lens=draft_lens
        )
        samples = (num_kept, num_taken_back, sampled_of_states, prompts_of_states)
        function(last_rows, draft_step, buffers, step, *samples, num_reqs_padded)

    return launch
