"""The pool of requests after a step: new slots written behind each prefix, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.step import pool_rows
from cumae.properties.engines.sglang.engine import ENGINE, STEPS, starts

Tensor = torch.Tensor


def _slots(case: Case) -> Any:
    return np.array(Inputs(case)["slot_mapping"], dtype=np.int64)


def _shape(case: Case) -> tuple[int, int]:
    """Return rows and columns of a pool that just holds the step."""
    width = max((request.seq_len for request in case.batch.requests), default=0)
    return max(pool_rows(case), default=0) + 1, width


def _written(answer: Any, inputs: Inputs) -> list[int]:
    """Return the pool after the step: the slots of new tokens, -1 where nothing is written."""
    case = inputs.case
    pool, new = np.full(_shape(case), -1), iter(answer.out_cache_loc)
    for row, request in zip(pool_rows(case), case.batch.requests, strict=True):
        for position in range(request.context_len, request.seq_len):
            pool[row, position] = next(new)
    found: list[int] = pool.ravel().tolist()
    return found


_POOL = replace(
    SGLANG.extend(
        start_offset=starts,
        new_slots=_slots,
        num_rows=lambda case: _shape(case)[0],
        pool_len=lambda case: _shape(case)[1],
        batch_size_of_step=lambda case: len(case.batch.requests),
    ),
    outputs={
        "allocate_slots": (
            Output("pool", "int32", "pool", "slots of new tokens", shape=_shape, expect=_written),
        )
    },
)


@ENGINE.adapts(
    "sglang/srt/mem_cache/allocation.py",
    "assign_req_to_token_pool_func",
    operation="allocate_slots",
    dialect=_POOL,
    domain=STEPS.having(padding="none", max_requests=256, max_context_len=4096, max_query_len=4096),
    _is_cpu=False,
)
def assign_req_to_token_pool(function: Any) -> Callable[..., Tensor]:
    """Slots of a step's new tokens written into the rows of their requests."""

    def launch(
        req_pool_indices: Tensor,
        start_offset: Tensor,
        end_offset: Tensor,
        new_slots: Tensor,
        num_rows: int,
        pool_len: int,
        batch_size_of_step: int,
    ) -> Tensor:
        pool = torch.full((num_rows, pool_len), -1, dtype=torch.int32, device=new_slots.device)
        function(req_pool_indices, pool, start_offset, end_offset, new_slots, batch_size_of_step)
        return pool

    return launch
