"""States and samples after a step with drafts: what each request keeps of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.vllm.drafts import num_logits
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held, num_sampled, state_rows
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor
VOCABULARY = 50


def num_states(case: Case) -> int:
    """Return the rows of the states, some of which belong to no request."""
    return 2 * len(case.batch.requests) + 1


def live_rows(case: Case) -> list[int]:
    """Return the state row of each request; every fourth request is left out of the update, by -1."""
    return [-1 if b % 4 == 3 else row for b, row in enumerate(state_rows(case))]


def kept_lens(case: Case) -> list[int]:
    """Return the tokens that each request keeps, none for every third one, which prefills its prompt."""
    return [0 if b % 3 == 2 else kept for b, kept in enumerate(num_sampled(case))]


def rejected_lens(case: Case) -> list[int]:
    """Return the drafts that each request rejects, none of a prompt's chunk."""
    pairs = zip(num_logits(case), kept_lens(case), strict=True)
    return [rows - kept if kept else 0 for rows, kept in pairs]


def kept_ids(case: Case) -> list[list[int]]:
    """Return the ids that each request keeps; some occur twice."""
    return [[(13 * b + i // 2) % VOCABULARY for i in range(kept)] for b, kept in enumerate(kept_lens(case))]


def padded_samples(case: Case) -> Any:
    """Return a row of samples for each request; places behind the kept ones hold -1 or no id at all."""
    width, rows = case.options.drafts.max_drafts + 1, kept_ids(case)
    table = [row + [(-1, VOCABULARY)[i % 2] for i in range(width - len(row))] for row in rows]
    return np.array(table, dtype=np.int32).reshape(len(rows), width)


def _drafts(case: Case) -> Any:
    """Return the drafts proposed for the next step."""
    count, width = len(case.batch.requests), case.options.drafts.max_drafts
    return np.arange(count * width, dtype=np.int32).reshape(count, width)


def _history(row: int) -> int:
    """Return the tokens of a state before the update; the history holds any number."""
    return 3 * row % 7


def _of_states(name: str, rule: str, width: Callable[[Case], int], values: Callable[[Case], Any]) -> Output:
    """Return rows of the states, in place: ``values`` gives the row of each request, None where it stays.

    Before the update the states hold what ``_before`` says.
    """

    def before(inputs: Inputs) -> Ints:
        case = inputs.case
        found = [_before(name, row, case) for row in range(num_states(case))]
        return ints([[value] * width(case) for value in found], "int32", "zero", width=width(case))

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        case = inputs.case
        rows: list[list[Any]] = [[UNTOUCHED] * width(case) for _ in range(num_states(case))]
        for state, new in zip(live_rows(case), values(case), strict=True):
            if state >= 0:
                rows[state] = list(new)
        return [value for row in rows for value in row]

    shape = lambda case: (num_states(case), width(case))  # noqa: E731
    return Output(name, "int32", "state_row", rule, shape=shape, expect=expect, before=before)


def _before(name: str, row: int, case: Case) -> int:
    """Return the content of a state before the update."""
    if name == "total_of_states":
        return _history(row)
    if name == "computed_of_states":
        contexts = dict(zip(state_rows(case), (r.context_len for r in case.batch.requests), strict=True))
        return contexts.get(row, -1)
    return 0 if name == "counts_of_states" else -9


def _computed(case: Case) -> list[list[int]]:
    """Return context and new tokens, less the rejected ones."""
    pairs = zip(case.batch.requests, rejected_lens(case), strict=True)
    return [[request.seq_len - rejected] for request, rejected in pairs]


def _totals(case: Case) -> list[list[int]]:
    return [[_history(row) + count] for row, count in zip(state_rows(case), kept_lens(case), strict=True)]


def _last(case: Case) -> list[list[Any]]:
    return [[row[-1] if row else UNTOUCHED] for row in kept_ids(case)]


def _width(case: Case) -> int:
    return 7 + case.options.drafts.max_drafts + 1


def _histories(case: Case) -> list[list[Any]]:
    """Return the histories with the kept tokens behind them."""
    found = []
    for state, row in zip(state_rows(case), kept_ids(case), strict=True):
        first = _history(state)
        found.append([*[UNTOUCHED] * first, *row, *[UNTOUCHED] * (_width(case) - first - len(row))])
    return found


def _counts(case: Case) -> list[list[int]]:
    return [[row.count(token) for token in range(VOCABULARY)] for row in kept_ids(case)]


_ONE = lambda case: 1  # noqa: E731
_UPDATED = having(
    DRAFTS,
    "draft_steps",
    _of_states("computed_of_states", "context and new tokens, less rejected drafts", _ONE, _computed),
    _of_states("total_of_states", "the history and the kept tokens", _ONE, _totals),
    _of_states("last_of_states", "the last token kept", _ONE, _last),
    _of_states("ids_of_states", "the kept tokens behind the history", _width, _histories),
    _of_states("counts_of_states", "the times that a kept token occurs", lambda case: VOCABULARY, _counts),
    _of_states(
        "drafts_of_states",
        "the drafts of the next step",
        lambda case: case.options.drafts.max_drafts,
        lambda case: _drafts(case).tolist(),
    ),
    live_rows=held(live_rows),
    samples=padded_samples,
    num_kept=held(kept_lens),
    num_taken_back=held(rejected_lens),
    next_drafts=_drafts,
)


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "post_update",
    operation="draft_steps",
    dialect=_UPDATED,
    domain=STEPS,
)
def post_update(function: Any) -> Callable[..., None]:
    """Runner V2: the states after a step, in place; -1 leaves a request out."""

    def launch(
        live_rows: Tensor,
        samples: Tensor,
        num_kept: Tensor,
        num_taken_back: Tensor,
        query_start_loc: Tensor,
        next_drafts: Tensor,
        computed_of_states: Tensor,
        total_of_states: Tensor,
        last_of_states: Tensor,
        ids_of_states: Tensor,
        counts_of_states: Tensor,
        drafts_of_states: Tensor,
    ) -> None:
        function(
            live_rows,
            computed_of_states,
            last_of_states,
            counts_of_states,
            samples,
            num_kept,
            num_taken_back,
            query_start_loc,
            ids_of_states,
            total_of_states,
            next_drafts,
            drafts_of_states,
        )

    return launch


def _accepted(case: Case) -> list[list[int]]:
    return [[max(kept, 1)] for kept in kept_lens(case)]


@ENGINE.adapts(
    "vllm/v1/worker/gpu/model_states/mamba_hybrid.py",
    "_scatter_num_accepted_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _of_states("accepted_of_states", "the tokens kept, one at least", _ONE, _accepted),
        live_rows=held(live_rows),
        num_kept=held(kept_lens),
    ),
    domain=STEPS,
)
def scatter_num_accepted(kernel: Any) -> Callable[..., None]:
    """Runner V2: the tokens that each state keeps; -1 leaves a request out."""

    def launch(live_rows: Tensor, num_kept: Tensor, num_reqs: int, accepted_of_states: Tensor) -> None:
        kernel[(num_reqs,)](live_rows, num_kept, accepted_of_states)

    return launch
