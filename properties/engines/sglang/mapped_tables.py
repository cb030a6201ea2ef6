"""Page tables of a step through maps: of slots to the window's pool, of virtual to physical pages."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import page_columns, page_rows
from cumae.properties.dialects.sglang.step import num_rows
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS, STEPS

Tensor = torch.Tensor
_METADATA = "sglang/kernels/ops/attention/metadata.py"
MAPPED = {"block_sizes": (1, 2, 4, 8, 16, 32, 64, 128), "max_block_id": 2**14, "missing_blocks": False}
"""A map has an entry for each page or slot of the pool."""


def physical(case: Case, shift: int) -> list[int]:
    """Return the physical page of each virtual one; the dump page is bound to none."""
    count = case.num_cache_blocks
    return [-1, *((page * 5 + shift) % count for page in range(1, count))]


def _map(shift: int) -> Callable[[Case], Any]:
    return lambda case: np.array(physical(case, shift), dtype=np.int32)


def table(
    name: str,
    map_of: Callable[[Case], Callable[[int], int]],
    *,
    axis: str = "mapped_row",
    tail: Any = UNTOUCHED,
) -> Output:
    """Return a page table whose live entries went through a map, with ``tail`` behind them."""

    def expect(answer: Any, inputs: Inputs) -> list[Any]:
        pages, mapped = page_rows(answer, inputs, tail), map_of(inputs.case)
        return [mapped(page) if isinstance(page, int) else page for page in pages]

    return Output(
        name,
        follows="page_table",
        axis=axis,
        shape=lambda case: (case.num_requests_padded, page_columns(case)),
        expect=expect,
    )


def of_pages(shift: int) -> Callable[[Case], Callable[[int], int]]:
    """Return the maps of cases from virtual to physical pages; an unbound page is the sink."""
    return lambda case: [max(page, 0) for page in physical(case, shift)].__getitem__


def of_slots(case: Case) -> Callable[[int], int]:
    """Return the map of a case to pages of the window's pool, whose slots are counted from the end."""
    count = case.num_cache_blocks
    return lambda page: count - page


_PAGES = having(
    SGLANG,
    "page_table",
    table("page_table", of_pages(1)),
    table("swa_page_table", of_pages(2)),
    full_v2p=_map(1),
    swa_v2p=_map(2),
)
SLOT_TABLES = (table("page_table", lambda _: int), table("swa_page_table", of_slots))
_SLOTS = having(SGLANG, "page_table", *SLOT_TABLES)


def _mapped_locs(_: Any, inputs: Inputs) -> list[int]:
    """Return the slot of the window's pool for each new token; padding writes to the dump slot's."""
    case, slots = (
        inputs.case,
        [max(slot, 0) for slot in inputs["slot_mapping"][: inputs.case.batch.num_tokens]],
    )
    slots += [0] * (num_rows(case) - len(slots))
    return [case.num_cache_blocks * case.batch.block_size - slot for slot in slots]


LOCS = Output(
    "swa_out_cache_loc",
    "int64",
    "mapped_token",
    "the slot of the window's pool for the token's slot",
    shape=lambda case: (num_rows(case),),
    expect=_mapped_locs,
)


@ENGINE.adapts(
    _METADATA,
    "normal_decode_set_metadata",
    operation="page_table",
    dialect=_PAGES,
    domain=STEPS.having(**MAPPED),
)
def decode_tables_of_virtual_pages(function: Any) -> Callable[..., None]:
    """Both tables of a unified pool, whose pages are virtual; an unbound page reads the sink."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        draft_token_num: int,
        max_seq_pages: int,
        page_size: int,
        full_v2p: Tensor,
        swa_v2p: Tensor,
        page_table: Tensor,
        swa_page_table: Tensor,
    ) -> None:
        lens = torch.empty(len(seq_lens), dtype=torch.int32, device=seq_lens.device)
        starts = torch.empty(len(seq_lens) + 1, dtype=torch.int32, device=seq_lens.device)
        rows = (req_to_token, req_pool_indices, max_seq_pages, seq_lens, draft_token_num, page_size)
        function(
            lens, starts, page_table, *rows, swa_page_table=swa_page_table, full_v2p=full_v2p, swa_v2p=swa_v2p
        )

    return launch


@ENGINE.adapts(
    _METADATA,
    "normal_decode_set_metadata",
    operation="page_table",
    dialect=_SLOTS,
    domain=STEPS.having(**MAPPED),
)
def decode_tables_of_mapped_slots(function: Any) -> Callable[..., None]:
    """The table of the window's pool through the map of slots, beside the full one."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        draft_token_num: int,
        max_seq_pages: int,
        page_size: int,
        full_to_swa_mapping: Tensor,
        page_table: Tensor,
        swa_page_table: Tensor,
    ) -> None:
        lens = torch.empty(len(seq_lens), dtype=torch.int32, device=seq_lens.device)
        starts = torch.empty(len(seq_lens) + 1, dtype=torch.int32, device=seq_lens.device)
        rows = (req_to_token, req_pool_indices, max_seq_pages, seq_lens, draft_token_num, page_size)
        function(lens, starts, page_table, *rows, swa_page_table, full_to_swa_mapping)

    return launch


@ENGINE.adapts(
    _METADATA,
    "draft_extend_set_metadata",
    operation="page_table",
    domain=EXTENDS.having(block_sizes=MAPPED["block_sizes"]),
)
def draft_extend_page_table(function: Any) -> Callable[..., None]:
    """The page table of an extend of drafts; tails stay."""

    def launch(
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        page_size: int,
        page_table: Tensor,
    ) -> None:
        count = len(seq_lens)
        lens = torch.empty(count, dtype=torch.int32, device=seq_lens.device)
        starts = torch.empty((2, count + 1), dtype=torch.int32, device=seq_lens.device)
        rows = (req_to_token, req_pool_indices, seq_lens, extend_seq_lens, page_size)
        function(lens, *starts, page_table, *rows)

    return launch


@ENGINE.adapts(
    _METADATA,
    "draft_extend_set_metadata",
    operation="page_table",
    dialect=having(SGLANG, "page_table", *SLOT_TABLES, LOCS),
    domain=STEPS.having(phases=("decode",), verify_steps=True, max_query_len=64, **MAPPED),
)
def draft_extend_tables_of_mapped_slots(function: Any) -> Callable[..., None]:
    """Both tables where all requests have as many drafts, and slots are mapped, too."""

    def launch(
        cache_seqlens_int32: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        page_size: int,
        full_to_swa_mapping: Tensor,
        raw_out_loc: Tensor,
        page_table: Tensor,
        swa_page_table: Tensor,
        swa_out_cache_loc: Tensor,
    ) -> None:
        lens = torch.empty_like(cache_seqlens_int32)
        starts = lens.new_empty((2, len(lens) + 1))
        rows = (req_to_token, req_pool_indices, cache_seqlens_int32, lens.new_ones(len(lens)), page_size)
        tables = (full_to_swa_mapping, swa_page_table, raw_out_loc, swa_out_cache_loc)
        function(lens.clone(), *starts, page_table, *rows, *tables)

    return launch
