"""Steps of several draft modules: padded slots, ids moved by one, and tokens kept for the next step."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Ints, Output
from cumae.properties.engines.known import Known
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import live_rows, num_states, rejected_lens

Tensor = torch.Tensor
_MTP = "vllm/v1/worker/gpu/spec_decode/multi_module_mtp/speculator.py"
_GROUPS = 2


def _last_rows(case: Case) -> list[int]:
    """Return the last row of each request that holds a token."""
    starts, rejected = Inputs(case)["cu_seqlens_q"], rejected_lens(case)
    return [starts[b + 1] - 1 - n for b, n in enumerate(rejected)]


def _in_place(name: str, dtype: str, rule: str, before: Callable[[Case], Any], expect: Any) -> Output:
    """Return an output that holds an array before the call; ``expect`` gets the inputs."""

    def held_before(inputs: Inputs) -> Ints:
        values = np.asarray(before(inputs.case), dtype=np.int64)
        steps = [int(np.prod(values.shape[i + 1 :])) for i in range(values.ndim)]
        return Ints(values, dtype, tuple(max(step, 1) for step in steps))

    return Output(
        name,
        dtype,
        "",
        rule,
        shape=lambda case: tuple(np.asarray(before(case)).shape),
        expect=lambda _, inputs: expect(inputs),
        before=held_before,
    )


def _slots(case: Case) -> Any:
    """Return slots of two cache groups, for padded rows, too."""
    return np.arange(_GROUPS * case.num_tokens_padded).reshape(_GROUPS, case.num_tokens_padded) + 1000


def _padded_slots(inputs: Inputs) -> list[Any]:
    case, found = inputs.case, list[Any]([UNTOUCHED] * inputs.case.num_tokens_padded)
    for b, last in enumerate(_last_rows(case)):
        stop = inputs["cu_seqlens_q"][b + 1]
        found[last + 1 : stop] = [-1] * (stop - last - 1)
    return found * _GROUPS


@ENGINE.adapts(
    _MTP,
    "pad_trailing_draft_slots",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _in_place("slots_of_groups", "int64", "-1 behind a request's last token", _slots, _padded_slots),
        last_rows=held(_last_rows),
    ),
    domain=STEPS.having(padding="untouched"),
)
def mtp_padded_slots(function: Any) -> Callable[..., None]:
    """Rows behind the last token of a request write no cache; padding of the step stays."""

    def launch(query_start_loc: Tensor, last_rows: Tensor, num_reqs: int, slots_of_groups: Tensor) -> None:
        function(slots_of_groups, query_start_loc, last_rows, num_reqs)

    return launch


def _ids(case: Case) -> Any:
    return np.arange(case.batch.num_tokens) * 10


def _moved(inputs: Inputs) -> list[Any]:
    case, found = inputs.case, list[Any]([UNTOUCHED] * inputs.case.batch.num_tokens)
    for b, (state, last) in enumerate(zip(live_rows(case), _last_rows(case), strict=True)):
        if state >= 0:
            start = inputs["cu_seqlens_q"][b]
            found[start : last + 1] = [*(10 * row for row in range(start + 1, last + 1)), -100 - b]
    return found


@ENGINE.adapts(
    _MTP,
    "_shift_input_ids_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _in_place("moved_ids", "int32", "the id behind the row, at last the draft", _ids, _moved),
        live_rows=held(live_rows),
        last_rows=held(_last_rows),
        new_drafts=held(lambda case: [-100 - b for b in range(len(case.batch.requests))]),
    ),
    domain=STEPS,
    known=Known(
        "vllm-mtp_moved_ids",
        "a warp stores to elements that another one has yet to load, without a barrier between",
        {"max_query_len": 33},
    ),
)
def mtp_moved_ids(kernel: Any) -> Callable[..., None]:
    """The ids of the next module, in place; -1 leaves a request out."""

    def launch(
        live_rows: Tensor,
        query_start_loc: Tensor,
        last_rows: Tensor,
        new_drafts: Tensor,
        num_reqs: int,
        moved_ids: Tensor,
    ) -> None:
        kernel[(num_reqs,)](moved_ids, live_rows, query_start_loc, last_rows, new_drafts, BLOCK_SIZE=1024)

    return launch


def _width(case: Case) -> int:
    """Return the tokens kept of each state: one fewer than the modules, of which there are two at least."""
    return max(case.options.drafts.max_drafts, 2) - 1


def _hidden(case: Case) -> int:
    """Return the numbers of a hidden state, in a small step more than a tile of them."""
    return 1030 if case.batch.num_tokens < 20 else 3


def _hidden_states(case: Case) -> Any:
    count, width = case.batch.num_tokens, _hidden(case)
    return np.arange(count * width, dtype=np.int32).reshape(count, width)


def _kept_rows(inputs: Inputs) -> list[list[int]]:
    """Return by state the row of each kept token, -1 in places that stay."""
    case, width = inputs.case, _width(inputs.case)
    found = [[-1] * width for _ in range(num_states(case))]
    for b, (state, last) in enumerate(zip(live_rows(case), _last_rows(case), strict=True)):
        if state >= 0:
            rows = [last - width + 1 + place for place in range(width)]
            found[state] = [row if row >= inputs["cu_seqlens_q"][b] else -1 for row in rows]
    return found


def _kept_ids(inputs: Inputs) -> list[Any]:
    return [10 * row if row >= 0 else UNTOUCHED for rows in _kept_rows(inputs) for row in rows]


def _kept_hidden(inputs: Inputs) -> list[Any]:
    width, found = _hidden(inputs.case), list[Any]()
    for row in (row for rows in _kept_rows(inputs) for row in rows):
        found += range(row * width, (row + 1) * width) if row >= 0 else [UNTOUCHED] * width
    return found


def _empty(*more: Callable[[Case], int]) -> Callable[[Case], Any]:
    return lambda case: np.full((num_states(case), _width(case), *(size(case) for size in more)), -7)


@ENGINE.adapts(
    _MTP,
    "cache_inputs",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _in_place("kept_ids", "int64", "ids of the last tokens of the request", _empty(), _kept_ids),
        _in_place("kept_hidden", "int32", "hidden states of these", _empty(_hidden), _kept_hidden),
        _in_place("kept_embeds", "int32", "embeddings of these", _empty(_hidden), _kept_hidden),
        live_rows=held(live_rows),
        last_rows=held(_last_rows),
        ids_of_rows=held(lambda case: _ids(case).tolist()),
        hidden_of_rows=_hidden_states,
    ),
    domain=STEPS,
)
def mtp_kept_inputs(function: Any) -> Callable[..., None]:
    """The last tokens of each request, kept by state for the next step; places of tokens before it stay."""

    def launch(
        live_rows: Tensor,
        query_start_loc: Tensor,
        last_rows: Tensor,
        ids_of_rows: Tensor,
        hidden_of_rows: Tensor,
        num_reqs: int,
        kept_ids: Tensor,
        kept_hidden: Tensor,
        kept_embeds: Tensor,
    ) -> None:
        buffers = SimpleNamespace(input_ids=ids_of_rows, query_start_loc=query_start_loc)
        caches = (kept_ids, kept_embeds, kept_hidden)
        sizes = (num_reqs, kept_ids.shape[1] + 1, True)
        function(buffers, hidden_of_rows, hidden_of_rows, *caches, last_rows, live_rows, *sizes)

    return launch
