"""Steps of draft models, from the step before and what was rejected of it."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.engines.vllm.engine import DRAFTS, ENGINE, STEPS

Tensor = torch.Tensor
_FAR = 2**30
_DECODES = STEPS.having(phases=("decode",), empty_requests=False, min_tokens=1)
_SINGLE = _DECODES.having(max_query_len=1)
_DFLASH = _DECODES.having(uniform_decodes=True, missing_blocks=False, max_tokens=256)


def _held(values: Callable[[Case], Sequence[int]], dtype: str) -> Callable[[Case], Any]:
    return lambda case: np.array([*values(case)], dtype=dtype)


def _rejected(case: Case) -> list[int]:
    return [b % 3 for b in range(len(case.batch.requests))]


def _lens_before(case: Case) -> list[int]:
    """Return the keys of each request after the step before, rejected ones counted."""
    pairs = zip(case.batch.requests, _rejected(case), strict=True)
    return [request.context_len + rejected for request, rejected in pairs]


def _positions_before(case: Case) -> list[int]:
    """Return the positions of the step before: of each request a kept token, then the rejected ones."""
    pairs = zip(case.batch.requests, _rejected(case), strict=True)
    return [request.context_len - 1 + i for request, rejected in pairs for i in range(rejected + 1)]


_AFTER = DRAFTS.extend(
    num_rejected=_held(_rejected, "int32"),
    lens_before=_held(_lens_before, "int32"),
    starts_before=_held(lambda case: [0, *accumulate(n + 1 for n in _rejected(case))], "int32"),
    positions_before=_held(_positions_before, "int64"),
)
_TARGET = "vllm/v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py"


def _next(function: Any, rejected: Tensor, lens: Tensor, **buffers: Tensor) -> None:
    """Call the function with the buffers that are given, and others that are not compared."""
    ids, samples = torch.zeros_like(rejected), torch.zeros_like(rejected, dtype=torch.int64)
    padded = buffers.get("seq_lens", buffers.get("query_start_loc", rejected))
    count = len(padded) - ("query_start_loc" in buffers)
    held = {
        "positions": samples.clone(),
        "query_start_loc": padded.new_empty(count + 1),
        "seq_lens": padded.new_empty(count),
        **buffers,
    }
    function(ids, lens, rejected, SimpleNamespace(input_ids=ids.clone(), **held), samples, _FAR, count)


@ENGINE.adapts(
    _TARGET,
    "prepare_decode_inputs",
    operation="position_ids",
    dialect=_AFTER,
    domain=_SINGLE.having(padding="none"),
)
def draft_positions(function: Any) -> Callable[..., None]:
    """The position of each request's first draft, in place of that of its last token."""

    def launch(
        previous_positions: Tensor, num_rejected: Tensor, lens_before: Tensor, positions: Tensor
    ) -> None:
        positions.copy_(previous_positions)
        _next(function, num_rejected, lens_before, positions=positions)

    return launch


@ENGINE.adapts(_TARGET, "prepare_decode_inputs", operation="sequence_layout", dialect=_AFTER, domain=_SINGLE)
def draft_starts(function: Any) -> Callable[..., None]:
    """The starts of the first drafts, padding included."""

    def launch(num_rejected: Tensor, lens_before: Tensor, query_start_loc: Tensor) -> None:
        _next(function, num_rejected, lens_before, query_start_loc=query_start_loc)

    return launch


@ENGINE.adapts(
    _TARGET,
    "prepare_decode_inputs",
    operation="local_lens",
    dialect=_AFTER,
    domain=_SINGLE.having(world=(1,)),
)
def draft_lens(function: Any) -> Callable[..., None]:
    """The keys that the first drafts see, 0 on padding."""

    def launch(num_rejected: Tensor, lens_before: Tensor, dcp_local_seq_lens: Tensor) -> None:
        _next(function, num_rejected, lens_before, seq_lens=dcp_local_seq_lens)

    return launch


def _parallel(
    function: Any,
    rejected: Tensor,
    starts: Tensor,
    positions: Tensor,
    table: Tensor,
    sizes: tuple[int, int, int, int],
    ranks: tuple[int, int, int] = (0, 1, 1),
) -> tuple[SimpleNamespace, Tensor]:
    """Return the buffers and the slots of a step of parallel drafts.

    ``sizes``: the block, the drafts of a request, the requests and the tokens with padding; ``ranks``: the
    rank, their number and the interleave.
    """
    block_size, num_drafts, num_reqs, num_tokens = sizes
    like, count = rejected, len(rejected)
    step = SimpleNamespace(
        num_reqs=count,
        num_scheduled_tokens=starts.diff().cpu().numpy(),
        positions=positions,
        query_start_loc=starts,
        idx_mapping=torch.arange(count, dtype=torch.int32, device=like.device),
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
    heat, seeds = torch.ones(count, device=like.device), positions.new_ones(count)
    sampled = (torch.ones_like(rejected), rejected, torch.zeros_like(rejected), torch.zeros_like(rejected))
    state = (heat.clone(), seeds.clone(), step, *sampled, heat, seeds)
    rank, world, interleave = ranks
    kinds = (block_size, rank, world, interleave, 0, num_drafts, num_drafts, num_reqs, num_tokens, _FAR)
    function(buffers, slots, *context, *samples, *state, table, *kinds, sample_from_anchor=True)
    return buffers, slots


_FUNCTION = ("vllm/v1/worker/gpu/spec_decode/dflash/speculator.py", "prepare_dflash_inputs")


@ENGINE.adapts(*_FUNCTION, operation="position_ids", dialect=_AFTER, domain=_DFLASH)
def dflash_positions(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The positions of a step of parallel drafts, all requests with as many."""

    def launch(
        num_rejected: Tensor,
        starts_before: Tensor,
        positions_before: Tensor,
        block_table: Tensor,
        block_size: int,
        max_query_len: int,
        num_reqs_padded: int,
        num_tokens_padded: int,
    ) -> dict[str, Tensor]:
        before = (num_rejected, starts_before, positions_before, block_table)
        sizes = (block_size, max_query_len, num_reqs_padded, num_tokens_padded)
        return {"positions": _parallel(function, *before, sizes)[0].positions}

    return launch


@ENGINE.adapts(*_FUNCTION, operation="slot_mapping", dialect=_AFTER, domain=_DFLASH)
def dflash_slots(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The slots of the same step, on a rank."""

    def launch(
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
        before = (num_rejected, starts_before, positions_before, block_table)
        sizes = (block_size, max_query_len, num_reqs_padded, num_tokens_padded)
        ranks = (dcp_rank, dcp_world_size, cp_kv_cache_interleave_size)
        return {"slot_mapping": _parallel(function, *before, sizes, ranks)[1]}

    return launch
