"""DSpark's rings, which hold the last tokens of each request: places of committed drafts, keys of a block."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.committed_drafts import committed_lens
from cumae.properties.engines.sglang.draft_block_keys import (
    Msgspec,
    block_width,
    ceil_align,
    first_keys,
    valid_from,
)
from cumae.properties.engines.sglang.draft_windows import WINDOWS
from cumae.properties.engines.sglang.engine import ENGINE

Tensor = torch.Tensor
_RINGS = DRAFTS.having(
    max_query_len=64,
    max_tokens=512,
    window=WINDOWS,
    missing_blocks=False,
    rowless_requests=False,
)


def _ring(case: Case) -> int:
    """Return the rows of a ring: they hold the window and a block of drafts, and some more."""
    return case.options.keys.window + case.batch.requests[0].query_len + case.layout.num_spare_columns


def _in_ring(b: int, positions: range, case: Case) -> list[int]:
    """Return the places of positions of a request in its ring."""
    row, size = SGLANG.table_rows(case)[b], _ring(case)
    return [row * size + position % size for position in positions]


def _committed_places(_: Any, inputs: Inputs) -> list[int]:
    """Return the place in the ring for each committed token, -1 for the others."""
    case, found = inputs.case, list[int]()
    for b, (request, count) in enumerate(zip(case.batch.requests, committed_lens(case), strict=True)):
        places = _in_ring(b, range(request.context_len, request.seq_len), case)
        found += [place if i < count else -1 for i, place in enumerate(places)]
    return found


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/dspark/dspark_verify_window.py",
    "build_ring_commit_inject_layout",
    operation="window_slots",
    dialect=having(
        DRAFTED,
        "window_slots",
        Output(
            "committed_places",
            "int32",
            "committed_token",
            "the place in the request's ring, -1 for tokens that are not committed",
            follows="window_slots",
            shape=lambda case: (case.batch.num_tokens,),
            expect=_committed_places,
        ),
        Output(
            "block_positions",
            "int64",
            "token",
            "its position, committed or not",
            shape=lambda case: (case.batch.num_tokens,),
            expect=lambda _, inputs: inputs["position_ids"],
        ),
        committed=int32(committed_lens),
        ring_size=_ring,
    ),
    domain=_RINGS,
    msgspec=Msgspec,
)
def ring_commit_layout(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Places in rings and positions of the tokens of a verify step."""

    def launch(
        req_pool_indices: Tensor,
        start_offset: Tensor,
        committed: Tensor,
        num_new: int,
        swa_window: int,
        ring_size: int,
    ) -> dict[str, Tensor]:
        found = function(
            req_pool_indices=req_pool_indices,
            prefix_lens=start_offset,
            block_pos_offsets=torch.arange(num_new, device=start_offset.device),
            commit_lens=committed,
            stride=num_new,
            ring_stride=ring_size,
        )
        return {"committed_places": found.swa_loc, "block_positions": found.positions}

    return launch


def _block_keys(case: Case) -> list[list[int]]:
    """Return the places in the ring that each token sees: those before its block, then the whole block."""
    found = list[list[int]]()
    for b, (request, first) in enumerate(zip(case.batch.requests, first_keys(case), strict=True)):
        found += [_in_ring(b, range(first, request.seq_len), case)] * request.query_len
    return found


def _block_rows(_: Any, inputs: Inputs) -> list[int]:
    width = block_width(inputs.case)
    return [place for row in _block_keys(inputs.case) for place in row + [-1] * (width - len(row))]


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/dspark/dspark_attn_metadata.py",
    "BuildDsparkSwaRingIndices",
    operation="window_slots",
    dialect=having(
        DRAFTED,
        "window_slots",
        Output(
            "block_places",
            "int32",
            "place_of_block_places",
            "the places in the ring of the window before the block, then of the block",
            follows="window_slots",
            shape=lambda case: (case.batch.num_tokens, block_width(case)),
            expect=_block_rows,
        ),
        Output(
            "block_lens",
            "int32",
            "row_of_block",
            "how many these are",
            follows="window_lens",
            shape=lambda case: (case.batch.num_tokens,),
            expect=lambda _, inputs: [len(row) for row in _block_keys(inputs.case)],
        ),
        valid_from=lambda case: np.array(valid_from(case), dtype=np.int64),
        ring_size=_ring,
    ),
    domain=_RINGS.having(min_window_columns=(1, 64, 128)),
    ceil_align=ceil_align,
    msgspec=Msgspec,
)
def dspark_ring_windows(kind: Any) -> Callable[..., dict[str, Tensor]]:
    """The keys of draft blocks in rings, some of which hold only a part of the window."""

    def launch(
        seq_lens_casual: Tensor,
        req_pool_indices_repeated: Tensor,
        valid_from: Tensor,
        ring_size: int,
        num_new: int,
        swa_window: int,
        page_index_aligned_size: int,
    ) -> dict[str, Tensor]:
        places, lens = kind.execute(
            seq_lens_casual=seq_lens_casual,
            req_pool_indices_repeated=req_pool_indices_repeated,
            valid_from=valid_from,
            ring_size=ring_size,
            block_size=num_new,
            swa_window=swa_window,
            page_index_aligned_size=page_index_aligned_size,
        )
        return {"block_places": places, "block_lens": lens}

    return launch
