"""Draft tokens that are committed: their slots in the window's pool, and a draft model's rows of them."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.engine import ENGINE
from cumae.properties.engines.sglang.mapped_tables import MAPPED

Tensor = torch.Tensor


def committed_lens(case: Case) -> list[int]:
    """Return the tokens of each request that are committed, none or all of some."""
    return [(5 * b + 2) % (r.query_len + 1) for b, r in enumerate(case.batch.requests)]


def _committed_slots(_: Any, inputs: Inputs) -> list[int]:
    """Return the slot in the window's pool for each committed token, -1 for the others."""
    case, found = inputs.case, list[int]()
    pool = case.num_cache_blocks * case.batch.block_size
    steps = zip(case.batch.requests, slots_of(case), committed_lens(case), strict=True)
    for request, slots, count in steps:
        new = slots[request.context_len :]
        found += [pool - slot if i < count else -1 for i, slot in enumerate(new)]
    return found


_COMMITTED_SLOTS = Output(
    "committed_slots",
    "int32",
    "committed_token",
    "the slot of the window's pool, -1 for tokens that are not committed",
    follows="slot_mapping",
    shape=lambda case: (case.batch.num_tokens,),
    expect=_committed_slots,
)
_COMMITTED = having(DRAFTED.extend(committed=int32(committed_lens)), "slot_mapping", _COMMITTED_SLOTS)
_MAPPED = DRAFTS.having(max_query_len=64, max_tokens=4096, **MAPPED)
_VERIFY = "sglang/kernels/ops/speculative/dspark/dspark_verify_window.py"


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/dspark/commit_swa.py",
    "committed_swa_locations",
    operation="slot_mapping",
    dialect=_COMMITTED,
    domain=_MAPPED,
)
def committed_swa_slots(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: slots of the window's pool, from the slots of a step."""

    def launch(
        raw_out_loc: Tensor, full_to_swa_mapping: Tensor, committed: Tensor, num_new: int
    ) -> dict[str, Tensor]:
        return {"committed_slots": function(raw_out_loc, full_to_swa_mapping, committed, num_new)}

    return launch


def _injected(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        start_offset: Tensor,
        full_to_swa_mapping: Tensor,
        committed: Tensor,
        num_new: int,
    ) -> dict[str, Tensor]:
        found = function(
            req_pool_indices=req_pool_indices,
            req_to_token=req_to_token,
            prefix_lens=start_offset,
            block_pos_offsets=torch.arange(num_new + 3, device=start_offset.device),
            full_to_swa_mapping=full_to_swa_mapping,
            commit_lens=committed,
            stride=num_new,
        )
        return {"committed_slots": found.swa_loc, "block_positions": found.positions}

    return launch


_INJECTED = having(
    _COMMITTED,
    "slot_mapping",
    _COMMITTED_SLOTS,
    Output(
        "block_positions",
        "int64",
        "token",
        "its position, committed or not",
        shape=lambda case: (case.batch.num_tokens,),
        expect=lambda _, inputs: inputs["position_ids"],
    ),
)


@ENGINE.adapts(
    _VERIFY, "build_commit_inject_layout", operation="slot_mapping", dialect=_INJECTED, domain=_MAPPED
)
def commit_layout(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: slots and positions of a block, in torch."""
    return _injected(function)


@ENGINE.adapts(
    _VERIFY, "build_commit_inject_layout_triton", operation="slot_mapping", dialect=_INJECTED, domain=_MAPPED
)
def commit_layout_by_triton(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: the same by a kernel."""
    return _injected(function)


def _kept(case: Case) -> list[int]:
    """Return the committed tokens that a compact row keeps: the last ones, in a window."""
    return [min(request.context_len, (300, 1, 7)[b % 3]) for b, request in enumerate(case.batch.requests)]


def _compact_width(case: Case) -> int:
    return max(_kept(case)) + case.batch.requests[0].query_len + case.layout.num_spare_columns


def _compact_rows(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of the kept tokens and of the new ones in the pool row of each request."""
    case, width, owners = inputs.case, _compact_width(inputs.case), SGLANG.table_rows(inputs.case)
    rows: list[list[Any]] = [[UNTOUCHED] * width for _ in range(max(owners) + 1)]
    steps = zip(owners, case.batch.requests, slots_of(case), _kept(case), strict=True)
    for owner, request, slots, kept in steps:
        live = slots[request.context_len - kept :]
        rows[owner][: len(live)] = live
    return [entry for row in rows for entry in row]


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/cache_locs.py",
    "rebuild_compact_draft_req_to_token_func",
    operation="page_table",
    dialect=having(
        DRAFTED,
        "page_table",
        Output(
            "compact_rows",
            "int32",
            "place_of_compact_rows",
            "the slots of the last committed tokens, then of the new ones",
            follows="page_table",
            shape=lambda case: (max(SGLANG.table_rows(case)) + 1, _compact_width(case)),
            expect=_compact_rows,
        ),
        kept=int32(_kept),
        first_kept=int32(
            lambda case: [
                r.context_len - kept for r, kept in zip(case.batch.requests, _kept(case), strict=True)
            ]
        ),
    ),
    domain=DRAFTS.having(max_query_len=64, max_tokens=4096, missing_blocks=False, rowless_requests=False),
)
def compact_draft_rows(function: Any) -> Callable[..., None]:
    """A draft model's pool, whose rows hold a window of the committed tokens and the new ones."""

    def launch(
        compact_rows: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        first_kept: Tensor,
        kept: Tensor,
        raw_out_loc: Tensor,
        num_new: int,
    ) -> None:
        function(
            draft_req_to_token=compact_rows,
            target_req_to_token=req_to_token,
            req_pool_indices=req_pool_indices,
            suffix_start=first_kept,
            draft_prefix_lens=kept,
            verify_out_cache_loc_2d=raw_out_loc.view(-1, num_new),
            batch_size=len(kept),
            block_size=num_new,
        )

    return launch
