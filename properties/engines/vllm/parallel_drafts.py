"""Steps of draft models that compute all drafts at once, from the step before and what was rejected of it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs, local_len
from cumae.oracle.context_parallel import owns
from cumae.oracle.slot_mapping import slot_of
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.vllm.drafts import state_rows
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_FAR = 2**30
_FUNCTION = ("vllm/v1/worker/gpu/spec_decode/dflash/speculator.py", "prepare_dflash_inputs")
DOMAIN = STEPS.having(
    phases=("decode",),
    empty_requests=False,
    min_tokens=1,
    uniform_decodes=True,
    missing_blocks=False,
    max_tokens=256,
)


def _rejected(case: Case) -> list[int]:
    return [b % 3 for b in range(len(case.batch.requests))]


def step_before(case: Case) -> list[tuple[int, int, int]]:
    """Return of each request its context, and the kept and the rejected tokens of the step before."""
    contexts = [request.context_len for request in case.batch.requests]
    kept = [min(context, (300, 1, 7)[b % 3]) for b, context in enumerate(contexts)]
    return [*zip(contexts, kept, _rejected(case), strict=True)]


def _starts_before(case: Case) -> list[int]:
    return [0, *accumulate(kept + more for _, kept, more in step_before(case))]


def positions_before(case: Case) -> list[int]:
    """Return the positions of the step before: of each request the kept tokens, then the rejected ones."""
    steps = step_before(case)
    return [p for context, kept, more in steps for p in range(context - kept, context + more)]


def _kept_positions(_: Any, inputs: Inputs) -> list[int]:
    """Return the positions of the kept tokens, 0 for rejected ones."""
    steps = step_before(inputs.case)
    return [p for context, kept, more in steps for p in (*range(context - kept, context), *[0] * more)]


def _kept_slots(_: Any, inputs: Inputs) -> list[int]:
    """Return the slots of the kept tokens on the rank, -1 for rejected ones."""
    case, found = inputs.case, list[int]()
    ranks = (case.batch.world, case.options.parallel.rank, case.options.parallel.interleave)
    for request, (context, kept, more) in zip(case.batch.requests, step_before(case), strict=True):
        for p in range(context - kept, context):
            local = slot_of(request.block_ids, local_len(p, *ranks), case.batch.block_size)
            found.append(local if owns(p, *ranks) else -1)
        found += [-1] * more
    return found


def _sampling_rows(_: Any, inputs: Inputs) -> list[int]:
    """Return the state row of each new token's request, -1 for requests of padding."""
    case, count = inputs.case, inputs.case.batch.requests[0].query_len
    rows = state_rows(case) + [-1] * case.layout.num_padding_requests
    return [row for row in rows for _ in range(count)]


def _of_step_before(name: str, rule: str, expect: Callable[[Any, Inputs], list[int]]) -> Output:
    return Output(
        name, "int64", "token_before", rule, shape=lambda case: (_starts_before(case)[-1],), expect=expect
    )


def _held(values: Callable[[Case], list[int]], dtype: str) -> Callable[[Case], Any]:
    return lambda case: np.array(values(case), dtype=dtype)


BEFORE = replace(
    VLLM.extend(
        idx_mapping=_held(state_rows, "int32"),
        num_rejected=_held(_rejected, "int32"),
        starts_before=_held(_starts_before, "int32"),
        positions_before=_held(positions_before, "int64"),
    ),
    outputs={
        "position_ids": (
            *VLLM.outputs["position_ids"],
            _of_step_before("context_positions", "its position, 0 if rejected", _kept_positions),
            Output(
                "sample_idx_mapping",
                "int32",
                "sample",
                "the state row of the request that samples",
                shape=lambda case: (case.num_requests_padded * case.batch.requests[0].query_len,),
                expect=_sampling_rows,
            ),
        ),
        "slot_mapping": (
            *VLLM.outputs["slot_mapping"],
            _of_step_before("context_slots", "its slot, -1 if rejected", _kept_slots),
        ),
    },
)


def _launched(
    function: Any,
    rows: Tensor,
    rejected: Tensor,
    starts: Tensor,
    positions: Tensor,
    table: Tensor,
    sizes: tuple[int, int, int, int],
    ranks: tuple[int, int, int] = (0, 1, 1),
) -> dict[str, Tensor]:
    """Return the outputs of a step of parallel drafts.

    ``sizes``: the block, the drafts of a request, the requests and the tokens with padding; ``ranks``: the
    rank, their number and the interleave.
    """
    block_size, num_drafts, num_reqs, num_tokens = sizes
    like, num_states = rejected, 2 * len(rejected) + 1
    step = SimpleNamespace(
        num_reqs=len(rejected),
        num_scheduled_tokens=starts.diff().cpu().numpy(),
        positions=positions,
        query_start_loc=starts,
        idx_mapping=rows,
    )
    buffers = SimpleNamespace(
        input_ids=like.new_empty(num_tokens),
        positions=positions.new_empty(num_tokens),
        is_padding=torch.empty(num_tokens, dtype=torch.bool, device=like.device),
        query_start_loc=like.new_empty(num_reqs + 1),
        seq_lens=like.new_empty(num_reqs),
    )
    slots = positions.new_empty(num_tokens)
    context = (torch.empty_like(positions), torch.empty_like(positions))
    samples = [like.new_empty(num_reqs * num_drafts) for _ in range(3)]
    heat, seeds = torch.ones(num_states, device=like.device), positions.new_ones(num_states)
    states = (like.new_zeros(num_states), like.new_zeros(num_states))
    state = (heat.clone(), seeds.clone(), step, torch.ones_like(rejected), rejected, *states, heat, seeds)
    rank, world, interleave = ranks
    kinds = (block_size, rank, world, interleave, 0, num_drafts, num_drafts, num_reqs, num_tokens, _FAR)
    function(buffers, slots, *context, *samples, *state, table, *kinds, sample_from_anchor=True)
    names = ("positions", "slot_mapping", "context_positions", "context_slots", "sample_idx_mapping")
    return dict(zip(names, (buffers.positions, slots, *context, samples[2]), strict=True))


@ENGINE.adapts(*_FUNCTION, operation="position_ids", dialect=BEFORE, domain=DOMAIN)
def dflash_positions(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Positions of the drafts and of the tokens before, and the rows that sample; all have as many drafts."""

    def launch(
        idx_mapping: Tensor,
        num_rejected: Tensor,
        starts_before: Tensor,
        positions_before: Tensor,
        block_table: Tensor,
        block_size: int,
        max_query_len: int,
        num_reqs_padded: int,
        num_tokens_padded: int,
    ) -> dict[str, Tensor]:
        before = (idx_mapping, num_rejected, starts_before, positions_before, block_table)
        sizes = (block_size, max_query_len, num_reqs_padded, num_tokens_padded)
        found = _launched(function, *before, sizes)
        return {name: found[name] for name in ("positions", "context_positions", "sample_idx_mapping")}

    return launch


@ENGINE.adapts(*_FUNCTION, operation="slot_mapping", dialect=BEFORE, domain=DOMAIN)
def dflash_slots(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The slots of both on a rank."""

    def launch(
        idx_mapping: Tensor,
        num_rejected: Tensor,
        starts_before: Tensor,
        positions_before: Tensor,
        block_table: Tensor,
        block_size: int,
        max_query_len: int,
        num_reqs_padded: int,
        num_tokens_padded: int,
        dcp_rank: int,
        dcp_world_size: int,
        cp_kv_cache_interleave_size: int,
    ) -> dict[str, Tensor]:
        before = (idx_mapping, num_rejected, starts_before, positions_before, block_table)
        sizes = (block_size, max_query_len, num_reqs_padded, num_tokens_padded)
        ranks = (dcp_rank, dcp_world_size, cp_kv_cache_interleave_size)
        found = _launched(function, *before, sizes, ranks)
        return {name: found[name] for name in ("slot_mapping", "context_slots")}

    return launch
