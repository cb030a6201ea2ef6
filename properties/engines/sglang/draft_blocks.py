"""Blocks of draft tokens: their positions and slots, of all requests or of those that are committed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.engine import ENGINE
from cumae.properties.engines.sglang.unified_lists import WHOLE

Tensor = torch.Tensor
_DFLASH = ("sglang/kernels/ops/speculative/dflash.py", "_prepare_dflash_draft_block_unchecked")
_LAYOUT = ("sglang/kernels/ops/speculative/eagle.py", "prepare_draft_extend_layout")
_FEW = DRAFTS.having(max_query_len=64, max_tokens=4096)


def _block(function: Any, contexts: Tensor, rows: Tensor, pool: Tensor, each: int) -> tuple[Tensor, Tensor]:
    """Return positions and slots of a block of drafts."""
    outs = [contexts.new_empty((len(contexts), each), dtype=torch.int64) for _ in range(3)]
    function(torch.ones_like(contexts), contexts, rows, pool, *outs, 7)
    return outs[1].flatten(), outs[2].flatten()


@ENGINE.adapts(*_DFLASH, operation="position_ids", dialect=DRAFTED, domain=_FEW)
def dflash_block_positions(function: Any) -> Callable[..., Tensor]:
    """DFlash: positions of a block of drafts behind each request."""

    def launch(req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, num_new: int) -> Tensor:
        return _block(function, start_offset, req_pool_indices, req_to_token, num_new)[0]

    return launch


@ENGINE.adapts(*_DFLASH, operation="slot_mapping", dialect=DRAFTED, domain=_FEW)
def dflash_block_slots(function: Any) -> Callable[..., Tensor]:
    """DFlash: slots of the block."""

    def launch(req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, num_new: int) -> Tensor:
        return _block(function, start_offset, req_pool_indices, req_to_token, num_new)[1]

    return launch


@ENGINE.adapts(*_LAYOUT, operation="position_ids", dialect=DRAFTED, domain=_FEW)
def draft_extend_positions(function: Any) -> Callable[..., Tensor]:
    """EAGLE: positions of an extend of drafts."""

    def launch(start_offset: Tensor, num_new: int) -> Tensor:
        found: Tensor = function(start_offset, num_new, False)[3][0]
        return found

    return launch


@ENGINE.adapts(
    *_LAYOUT,
    operation="sequence_layout",
    dialect=having(
        DRAFTED,
        "sequence_layout",
        Output("extend_start_loc", "int32", "live_request", expect=lambda a, _: a.cu_seqlens_q[:-1]),
        Output(
            "lens_after",
            "int64",
            "live_request",
            "the keys after the step",
            shape=lambda case: (len(case.batch.requests),),
            expect=lambda _, inputs: inputs["seq_lens"],
        ),
    ),
    domain=_FEW,
)
def draft_extend_starts(function: Any) -> Callable[..., dict[str, Tensor]]:
    """EAGLE: the first row of each request, and its keys after the step."""

    def launch(start_offset: Tensor, num_new: int) -> dict[str, Tensor]:
        _, _, lens, (_, starts, _) = function(start_offset, num_new, True)
        return {"extend_start_loc": starts, "lens_after": lens}

    return launch


def _warmup(case: Case) -> int:
    """Return the rows in front of which a request writes nothing that is read."""
    return len(case.batch.requests) % 3


def _front(case: Case) -> int:
    """Return the rows of a block that repeat committed tokens: all but one at most."""
    return case.batch.requests[0].query_len - 1


def _stashed(case: Case) -> list[int]:
    """Return the committed tokens of which a request has states, in every pool row."""
    return [(3 * b + 1) % (_front(case) + 2) for b in range(len(case.batch.requests))]


def _stash_of_rows(case: Case) -> Any:
    rows = SGLANG.table_rows(case)
    found = np.full(max(rows) + 1, -1, dtype=np.int32)
    found[rows] = _stashed(case)
    return found


def _first_valid(case: Case) -> list[int]:
    front = _front(case)
    return [max(front - stashed, 0) for stashed in _stashed(case)]


def _known_positions(_: Any, inputs: Inputs) -> list[int]:
    """Return the position of each row, 0 for rows without a state."""
    case, found = inputs.case, list[int]()
    for request, first in zip(case.batch.requests, _first_valid(case), strict=True):
        places = range(request.context_len, request.seq_len)
        found += [position if i >= first else 0 for i, position in enumerate(places)]
    return found


def _known_slots(_: Any, inputs: Inputs) -> list[int]:
    """Return the slot of each row, the dump slot in front of the first warm one."""
    case, found = inputs.case, list[int]()
    steps = zip(case.batch.requests, slots_of(case), _first_valid(case), strict=True)
    for request, slots, first in steps:
        warm = min(first + _warmup(case), _front(case))
        found += [slot if i >= warm else 0 for i, slot in enumerate(slots[request.context_len :])]
    return found


_WIDENED = SGLANG.extend(
    lens_before=lambda case: np.array([r.context_len + _front(case) for r in case.batch.requests]),
    stash=_stash_of_rows,
    warmup=_warmup,
    front=_front,
)


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/multi_layer_eagle.py",
    "compute_widened_draft_extend_locs_positions_triton",
    operation="slot_mapping",
    dialect=having(
        _WIDENED,
        "slot_mapping",
        Output("widened_slots", follows="slot_mapping", axis="token", expect=_known_slots),
        Output(
            "widened_positions", "int64", "token", "its position, if it has a state", expect=_known_positions
        ),
    ),
    domain=WHOLE.having(phases=("decode",), verify_steps=True, max_query_len=64, max_tokens=4096),
)
def widened_draft_extend(function: Any) -> Callable[..., dict[str, Tensor]]:
    """EAGLE of several layers: a block that begins at committed tokens, some without states."""

    def launch(
        lens_before: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        stash: Tensor,
        front: int,
        warmup: int,
    ) -> dict[str, Tensor]:
        slots, positions = function(lens_before, req_pool_indices, req_to_token, stash, 1, front, warmup)
        return {"widened_slots": slots, "widened_positions": positions}

    return launch
