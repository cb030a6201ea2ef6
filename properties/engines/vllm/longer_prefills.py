"""The first step of a draft model of its own, which has a row more for each request."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import Case, Inputs, position_ids
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.draft_prefills import (
    PADDED,
    TARGET,
    behind_requests,
    id_of,
    kept_rows,
    output,
    padded,
    sampled_id,
    target_step,
)
from cumae.properties.engines.vllm.drafts import DRAFTS, state_rows
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor


def _limit(case: Case) -> int:
    """Return the length of the model: no request is longer, and some are as long."""
    lens = [request.seq_len for request in case.batch.requests]
    return max(lens) if len(lens) % 2 else 2**30


def _longer(case: Case) -> list[int]:
    """Return the rows of each request of a step with one row more for each."""
    return [request.query_len + 1 for request in case.batch.requests]


def _longer_starts(case: Case) -> list[int]:
    return [0, *accumulate(_longer(case))]


def _longer_ids(inputs: Inputs) -> list[int]:
    """Return the kept ids, then the sampled one, then 0."""
    found = list[int]()
    for b, (start, stop) in enumerate(kept_rows(inputs)):
        ids = [*map(id_of, range(start, stop)), sampled_id(state_rows(inputs.case)[b])]
        found += ids + [0] * (_longer(inputs.case)[b] - len(ids))
    return found


def _longer_positions(inputs: Inputs) -> list[int]:
    """Return the positions of the longer step, at most the last one of the model."""
    case = inputs.case
    contexts = [request.context_len for request in case.batch.requests]
    found = position_ids(contexts, _longer(case), _longer_starts(case)[-1])
    return [min(p, _limit(case) - 1) for p in found.position_ids]


def _sampled_rows(inputs: Inputs) -> list[int]:
    pairs = zip(_longer_starts(inputs.case), kept_rows(inputs), strict=False)
    return behind_requests(inputs.case, [first + stop - start for first, (start, stop) in pairs])


def _num_longer(case: Case) -> int:
    return _longer_starts(case)[-1]


@ENGINE.adapts(
    "vllm/v1/worker/gpu/spec_decode/standalone_ar/speculator.py",
    "prepare_prefill_inputs",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        output("longer_ids", "int32", "", "kept ids, the sampled one, 0", _num_longer, _longer_ids),
        output("longer_positions", "int64", "", "that of the row", _num_longer, _longer_positions),
        output(
            "longer_starts",
            "int32",
            "",
            "the rows and one for each request; the last one on padding",
            lambda case: padded(case) + 1,
            lambda inputs: behind_requests(
                inputs.case, _longer_starts(inputs.case), _num_longer(inputs.case)
            ),
        ),
        output(
            "longer_lens",
            "int32",
            "",
            "one more, at most the length of the model; 0 on padding",
            padded,
            lambda inputs: behind_requests(
                inputs.case,
                [min(r.seq_len + 1, _limit(inputs.case)) for r in inputs.case.batch.requests],
            ),
        ),
        output("last_rows", "int64", "", "the row of the sampled id, 0 on padding", padded, _sampled_rows),
        max_model_len=_limit,
        **TARGET,
    ),
    domain=PADDED,
)
def longer_draft_prefill(function: Any) -> Callable[..., None]:
    """A draft model of its own, which also computes the sampled token; rejected rows go on behind it."""

    def launch(
        states: Tensor,
        ids_of_rows: Tensor,
        positions: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        num_reqs: int,
        num_reqs_padded: int,
        num_taken_back: Tensor,
        sampled_of_states: Tensor,
        max_model_len: int,
        longer_ids: Tensor,
        longer_positions: Tensor,
        longer_starts: Tensor,
        longer_lens: Tensor,
        last_rows: Tensor,
    ) -> None:
        step = target_step(states, ids_of_rows, positions, query_start_loc, seq_lens, num_reqs)
        buffers = SimpleNamespace(query_start_loc=longer_starts, seq_lens=longer_lens)
        outputs = (longer_ids, longer_positions, last_rows)
        function(buffers, step, sampled_of_states, num_taken_back, *outputs, num_reqs_padded, max_model_len)

    return launch
