"""Samples dealt to the ranks of tensor parallelism."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import Case
from cumae.properties.dialects import Output
from cumae.properties.dialects.vllm.drafts import num_logits
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, state_rows
from cumae.properties.engines.vllm.engine import ENGINE

Tensor = torch.Tensor


def _ranks(case: Case) -> tuple[int, int]:
    """Return the ranks of tensor parallelism and the rank, which follow from the case."""
    world = (1, 2, 3, 4, 8)[len(case.batch.requests) % 5]
    return world, case.batch.num_tokens % world


def _by_owner(case: Case) -> list[int]:
    """Return the requests by the rank that samples for them, in the order of the step."""
    rows, (world, _) = state_rows(case), _ranks(case)
    return sorted(range(len(rows)), key=lambda b: rows[b] % world)


def _own(case: Case) -> list[int]:
    world, rank = _ranks(case)
    return [b for b in _by_owner(case) if state_rows(case)[b] % world == rank]


def _shares(case: Case) -> list[int]:
    """Return how many requests each rank has."""
    world, _ = _ranks(case)
    owners = [row % world for row in state_rows(case)]
    return [owners.count(rank) for rank in range(world)]


def _sampled(answer: Any, case: Case, requests: list[int]) -> list[int]:
    """Return the sampled rows of the requests, in this order."""
    starts = [0, *accumulate(num_logits(case))]
    return [row for b in requests for row in answer.logits_indices[starts[b] : starts[b + 1]]]


def _gathered(case: Case) -> list[int]:
    """Return the place of each request among the ranks' results, which all have the room of the longest."""
    room, places, (world, _) = max(_shares(case)), dict[int, int](), _ranks(case)
    for rank in range(world):
        own = [b for b in _by_owner(case) if state_rows(case)[b] % world == rank]
        places.update({b: rank * room + i for i, b in enumerate(own)})
    return [places[b] for b in range(len(places))]


def _shard(name: str, dtype: str, rule: str, size: Callable[[Case], int], values: Any) -> Output:
    return Output(
        name,
        dtype,
        "",
        rule,
        shape=lambda case: (size(case),),
        expect=lambda answer, inputs: values(answer, inputs.case),
    )


def _num_own(case: Case) -> int:
    return sum(num_logits(case)[b] for b in _own(case))


@ENGINE.adapts(
    "vllm/v1/worker/gpu/sample/batch_shard.py",
    "_build_shard_plan_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _shard(
            "rows_by_owner",
            "int64",
            "the sampled rows, by rank",
            lambda case: sum(num_logits(case)),
            lambda answer, case: _sampled(answer, case, _by_owner(case)),
        ),
        _shard(
            "gathered_places",
            "int64",
            "the request's place among the ranks' results",
            lambda case: len(case.batch.requests),
            lambda _, case: _gathered(case),
        ),
        _shard(
            "own_states",
            "int32",
            "the states of the rank's requests",
            lambda case: len(_own(case)),
            lambda _, case: [state_rows(case)[b] for b in _own(case)],
        ),
        _shard(
            "own_starts",
            "int32",
            "the running sum of the rank's sampled rows",
            lambda case: len(_own(case)) + 1,
            lambda _, case: [0, *accumulate(num_logits(case)[b] for b in _own(case))],
        ),
        _shard(
            "own_rows",
            "int64",
            "the rank's sampled rows",
            _num_own,
            lambda answer, case: _sampled(answer, case, _own(case)),
        ),
        _shard(
            "own_states_of_rows",
            "int32",
            "the state of each of these",
            _num_own,
            lambda _, case: [state_rows(case)[b] for b in _own(case) for _ in range(num_logits(case)[b])],
        ),
        _shard(
            "own_places",
            "int32",
            "the number of each within its request",
            _num_own,
            lambda _, case: [i for b in _own(case) for i in range(num_logits(case)[b])],
        ),
        _shard(
            "own_lens",
            "int32",
            "the keys of the rank's requests",
            lambda case: len(_own(case)),
            lambda _, case: [case.batch.requests[b].seq_len for b in _own(case)],
        ),
        ranks=lambda case: _ranks(case)[0],
        own_rank=lambda case: _ranks(case)[1],
        room=lambda case: max(_shares(case)),
        first_own=lambda case: sum(
            num_logits(case)[b]
            for b in _by_owner(case)
            if state_rows(case)[b] % _ranks(case)[0] < _ranks(case)[1]
        ),
    ),
    domain=STEPS,
)
def shard_plan(kernel: Any) -> Callable[..., None]:
    """Samples dealt to the ranks of tensor parallelism by state, and where their results come back."""

    def launch(
        idx_mapping: Tensor,
        cu_num_logits: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        num_reqs: int,
        num_speculative_tokens: int,
        ranks: int,
        own_rank: int,
        room: int,
        first_own: int,
        rows_by_owner: Tensor,
        gathered_places: Tensor,
        own_states: Tensor,
        own_starts: Tensor,
        own_rows: Tensor,
        own_states_of_rows: Tensor,
        own_places: Tensor,
        own_lens: Tensor,
    ) -> None:
        step = (idx_mapping, cu_num_logits, query_start_loc, seq_lens)
        own = (own_states, own_starts, own_rows, own_states_of_rows, own_places, own_lens)
        sizes = {"TP_SIZE": ranks, "TP_RANK": own_rank}
        uppers = {
            "PADDED_NUM_REQS": 1 << (num_reqs - 1).bit_length(),
            "PADDED_NUM_LOGITS_PER_REQ": 1 << num_speculative_tokens.bit_length(),
        }
        numbers = (num_reqs, first_own, room)
        kernel[(num_reqs,)](*step, rows_by_owner, gathered_places, *own, *numbers, **sizes, **uppers)

    return launch
