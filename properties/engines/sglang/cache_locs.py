"""Slots and positions of extended and of draft tokens, looked up in the pool of requests."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import SGLANG
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, STEPS, starts

Tensor = torch.Tensor
_SPANS = SGLANG.extend(start_offset=starts, batch=lambda case: len(case.batch.requests))
_LOCS = "sglang/kernels/ops/speculative/cache_locs.py"
_NEXT = DECODES.having(padding="none")
DRAFTED = SGLANG.extend(start_offset=starts, num_new=lambda case: case.batch.requests[0].query_len)
DRAFTS = STEPS.having(
    phases=("decode",), uniform_decodes=True, empty_requests=False, max_query_len=512, padding="none"
)
"""All requests have as many new tokens."""


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=STEPS.having(padding="none"),
)
def assign_extend_cache_locs(kernel: Any) -> Callable[..., None]:
    """Slots of the new tokens of each request."""

    def launch(
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        start_offset: Tensor,
        end_offset: Tensor,
        batch: int,
        out_cache_loc: Tensor,
    ) -> None:
        width = 1 << max(batch - 1, 0).bit_length()
        spans = (start_offset, end_offset)
        kernel[(batch,)](req_pool_indices, req_to_token, *spans, out_cache_loc, req_to_token.shape[1], width)

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs_func",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cuda=True,
)
def assign_extend_cache_locs_of_one(function: Any) -> Callable[..., Tensor]:
    """Slots of one new token for each request, by the launcher."""

    def launch(
        req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, end_offset: Tensor, batch: int
    ) -> Tensor:
        where = (batch, 1, req_to_token.device)
        slots: Tensor = function(req_pool_indices, req_to_token, start_offset, end_offset, *where)
        return slots

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs_uniform_func",
    operation="slot_mapping",
    dialect=DRAFTED,
    domain=DRAFTS,
    _is_cuda=True,
)
def assign_extend_cache_locs_uniform(function: Any) -> Callable[..., Tensor]:
    """Slots of requests that all extend by the same number of tokens."""

    def launch(req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, num_new: int) -> Tensor:
        where = (len(req_pool_indices), num_new, req_to_token.device)
        slots: Tensor = function(req_pool_indices, req_to_token, start_offset, *where)
        return slots

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_draft_cache_locs_contiguous_func",
    operation="slot_mapping",
    dialect=DRAFTED,
    domain=DRAFTS,
    _is_cpu=False,
)
def assign_draft_cache_locs(function: Any) -> Callable[..., None]:
    """Slots of the draft tokens after each request: one branch of several steps."""

    def launch(
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        start_offset: Tensor,
        num_new: int,
        out_cache_loc: Tensor,
    ) -> None:
        function(req_pool_indices, req_to_token, start_offset, out_cache_loc, 1, num_new)

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_draft_cache_locs_contiguous_func",
    operation="slot_mapping",
    dialect=DRAFTED,
    domain=DRAFTS,
    _is_cpu=False,
)
def assign_draft_cache_locs_of_branches(function: Any) -> Callable[..., None]:
    """Slots of the draft tokens after each request: several branches of one step."""

    def launch(
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        start_offset: Tensor,
        num_new: int,
        out_cache_loc: Tensor,
    ) -> None:
        function(req_pool_indices, req_to_token, start_offset, out_cache_loc, num_new, 1)

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_draft_cache_locs_contiguous_func",
    operation="position_ids",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cpu=False,
)
def draft_positions(function: Any) -> Callable[..., None]:
    """Positions of draft tokens, from the same launch."""

    def launch(
        req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, positions: Tensor
    ) -> None:
        slots = torch.empty_like(positions)
        function(req_pool_indices, req_to_token, start_offset, slots, 1, 1, positions=positions)

    return launch
