"""Keys of a block of draft tokens: a window with the whole block, and those up to each draft."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.draft_windows import WINDOWS
from cumae.properties.engines.sglang.engine import ENGINE
from cumae.properties.engines.sglang.mapped_tables import MAPPED
from cumae.properties.engines.sglang.unified_lists import prefix_lens

Tensor = torch.Tensor


def block_width(case: Case) -> int:
    """Return the columns of a block's keys: the window and the drafts, rounded up."""
    aligned = case.options.window_rows.min_window_columns
    return -(-(case.options.keys.window + case.batch.requests[0].query_len) // aligned) * aligned


def _valid_lens(case: Case) -> list[int]:
    """Return the first position of each request that the window's cache holds, its context at most."""
    lens = prefix_lens(case)
    return [(0, length, max(length - 2, 0), length // 2)[b % 4] for b, length in enumerate(lens)]


def valid_from(case: Case) -> list[int]:
    """Return this position by row of the pool, 0 for rows of no request."""
    rows = dict(zip(SGLANG.table_rows(case), _valid_lens(case), strict=True))
    return [rows.get(row, 0) for row in range(max(rows) + 1)]


def first_keys(case: Case) -> list[int]:
    """Return the first key of each request's window before its block."""
    window, firsts = case.options.keys.window, zip(prefix_lens(case), _valid_lens(case), strict=True)
    return [max(context - window, valid) for context, valid in firsts]


def _block_keys(case: Case) -> list[list[int]]:
    """Return the keys of each token in the window's pool: those before its block, then the whole block."""
    pool, found = case.num_cache_blocks * case.batch.block_size, list[list[int]]()
    steps = zip(case.batch.requests, slots_of(case), first_keys(case), strict=True)
    for request, slots, first in steps:
        found += [[pool - slot for slot in slots[first:]]] * request.query_len
    return found


def _block_rows(_: Any, inputs: Inputs) -> list[int]:
    width = block_width(inputs.case)
    return [slot for row in _block_keys(inputs.case) for slot in row + [-1] * (width - len(row))]


_BLOCKS = having(
    DRAFTED,
    "window_slots",
    Output(
        "block_slots",
        "int32",
        "place_of_block_slots",
        "the slots of the window before the block, then of the block",
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
)
_DSPARK = "sglang/kernels/ops/speculative/dspark/dspark_attn_metadata.py"
_SMALL = DRAFTS.having(
    max_query_len=64, max_tokens=512, window=WINDOWS, min_window_columns=(1, 64, 128), **MAPPED
)


def _blocks(gather: Any, build: Any, is_torch: bool) -> Callable[..., dict[str, Tensor]]:
    def launch(
        seq_lens_casual: Tensor,
        req_pool_indices_repeated: Tensor,
        req_to_token: Tensor,
        full_to_swa_mapping: Tensor,
        raw_out_loc: Tensor,
        valid_from: Tensor,
        num_new: int,
        swa_window: int,
        page_index_aligned_size: int,
    ) -> dict[str, Tensor]:
        sizes = {"block_size": num_new, "swa_window": swa_window}
        owners = {"req_pool_indices_repeated": req_pool_indices_repeated}
        found = gather(seq_lens_casual=seq_lens_casual, valid_from=valid_from, **owners, **sizes)
        slots, lens = build(
            req_to_token=req_to_token,
            full_to_swa_mapping=full_to_swa_mapping,
            req_pool_indices_per_request=found.req_pool_indices_per_request,
            offsets=found.offsets,
            **({"invalid": found.invalid} if is_torch else {}),
            out_loc=raw_out_loc,
            context_lens=found.context_lens,
            page_index_aligned_size=page_index_aligned_size,
            **sizes,
        )
        return {"block_slots": slots, "block_lens": lens}

    return launch


def ceil_align(value: int, multiple: int) -> int:
    """Return the least multiple that is not below the value."""
    return -(-value // multiple) * multiple


class _Struct:
    """Stand in for a struct of keyword arguments."""

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Msgspec:
    """Stands in for the module of structs."""

    Struct = _Struct


@ENGINE.adapts(
    _DSPARK,
    "compute_dspark_window_gather",
    "build_dspark_swa_page_indices",
    operation="window_slots",
    dialect=_BLOCKS,
    domain=_SMALL,
    msgspec=Msgspec,
    ceil_align=ceil_align,
)
def dspark_windows(gather: Any, build: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: windows of the draft blocks of a step, in torch."""
    return _blocks(gather, build, True)


@ENGINE.adapts(
    _DSPARK,
    "compute_dspark_window_gather_triton",
    "build_dspark_swa_page_indices_triton",
    operation="window_slots",
    dialect=_BLOCKS,
    domain=_SMALL,
    msgspec=Msgspec,
    ceil_align=ceil_align,
)
def dspark_windows_by_triton(gather: Any, build: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: the same by kernels."""
    return _blocks(gather, build, False)


def _joined_width(case: Case) -> int:
    return max(r.seq_len for r in case.batch.requests) + case.layout.num_spare_columns


def _joined(_: Any, inputs: Inputs) -> list[Any]:
    """Return of each token the slots up to its own."""
    case, width, found = inputs.case, _joined_width(inputs.case), list[Any]()
    for request, slots in zip(case.batch.requests, slots_of(case), strict=True):
        for length in range(request.context_len + 1, request.seq_len + 1):
            found += slots[:length] + [UNTOUCHED] * (width - length)
    return found


def _own_drafts(case: Case) -> Any:
    """Return the slots of each token's drafts up to its own, and others behind."""
    found = list[list[int]]()
    for request, slots in zip(case.batch.requests, slots_of(case), strict=True):
        new = slots[request.context_len :]
        found += [new[: i + 1] + [-5] * (len(new) - i - 1) for i in range(len(new))]
    return np.array(found, dtype=np.int32)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "prepare_swa_spec_page_table_triton",
    operation="page_table",
    dialect=having(
        DRAFTED,
        "page_table",
        Output(
            "joined_table",
            "int32",
            "place_of_joined_table",
            "the slots of the context, then of the drafts up to the token",
            follows="page_table",
            shape=lambda case: (case.batch.num_tokens, _joined_width(case)),
            expect=_joined,
        ),
        contexts=int32(prefix_lens),
        own_drafts=_own_drafts,
        own_lens=int32(lambda case: [i + 1 for r in case.batch.requests for i in range(r.query_len)]),
    ),
    domain=DRAFTS.having(
        max_query_len=16, max_tokens=256, max_context_len=2048, missing_blocks=False, rowless_requests=False
    ),
)
def joined_draft_table(function: Any) -> Callable[..., None]:
    """Tables of a step with a row for each draft, joined from those of the context and of the drafts."""

    def launch(
        joined_table: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        own_drafts: Tensor,
        contexts: Tensor,
        own_lens: Tensor,
        num_new: int,
    ) -> None:
        rows = req_to_token[req_pool_indices]
        function(joined_table, rows, own_drafts, contexts, own_lens, num_new)

    return launch
