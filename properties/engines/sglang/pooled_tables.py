"""The fused page tables of sparse attention over pools of keys."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import ANY, Case
from cumae.properties.dialects import Output
from cumae.properties.dialects.sglang.pages import DUMP_SLOT, page_columns
from cumae.properties.dialects.sglang.step import cache_seqlens, num_rows, pool_rows, slots_of
from cumae.properties.engines.arrays import int32_room
from cumae.properties.engines.sglang.engine import DECODES, ENGINE
from cumae.properties.engines.sglang.pooled_lens import (
    DRAFTS,
    FEW,
    FILES,
    VERIFIES,
    Lens,
    draft_extend,
    each_row,
    lens_in_graph,
    of_rows,
    pooled,
)

Tensor = torch.Tensor
FEW_PROGRAMS = 64
"""The programs that share the columns of all rows: so few that each of a small step has several turns."""


def _width(lens: Lens, case: Case) -> int:
    return max(lens(case)) + case.layout.num_spare_columns


def _slot_rows(lens: Lens, case: Case) -> list[list[int]]:
    """Return the slots of each request's keys; the dump slot for those without a row."""
    rows = [
        [DUMP_SLOT] * request.seq_len if row == 0 else slots_of(case, request).tolist()
        for row, request in zip(pool_rows(case), case.batch.requests, strict=True)
    ]
    return rows + [[DUMP_SLOT] * length for length in lens(case)[len(rows) :]]


def _table(rows: Sequence[list[int]], width: int, case: Case) -> list[Any]:
    padded = [[*row, *[ANY] * (width - len(row))] for row in rows]
    return [entry for row in each_row(padded, case) for entry in row]


def _slots(lens: Lens, case: Case) -> list[Any]:
    return _table(_slot_rows(lens, case), _width(lens, case), case)


def _pages(lens: Lens, case: Case) -> list[Any]:
    rows = [[slot // 64 for slot in row[::64]] for row in _slot_rows(lens, case)]
    return _table(rows, page_columns(case), case)


def _table_outputs(lens: Lens) -> tuple[Output, ...]:
    return (
        Output(
            "real_page_table",
            "int32",
            "place_of_pages",
            "the pages of the token's request",
            follows="page_table",
            shape=lambda case: (num_rows(case), page_columns(case)),
            expect=lambda _, inputs: _pages(lens, inputs.case),
        ),
        Output(
            "token_table",
            "int32",
            "place_of_slots",
            "the slots of the keys of the token's request",
            follows="page_table",
            shape=lambda case: (num_rows(case), _width(lens, case)),
            expect=lambda _, inputs: _slots(lens, inputs.case),
        ),
        of_rows("keys", "the keys after the step", lens, "page_table"),
        of_rows(
            "key_starts",
            "the running sum of these",
            lambda case: [0, *accumulate(lens(case))],
            "page_table",
        ),
    )


@ENGINE.adapts(
    f"{FILES}/decode.py",
    "fused_dsa_decode_metadata_kpool",
    operation="page_table",
    dialect=pooled("page_table", _table_outputs, cache_seqlens),
    domain=DECODES.having(**FEW),
    _TILE_PROGRAM_TARGET=FEW_PROGRAMS,
)
def pooled_tables_of_decodes(function: Any) -> Callable[..., None]:
    """Both tables of decodes of one token."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        pool: int,
        real_page_table: Tensor,
        token_table: Tensor,
        keys: Tensor,
        key_starts: Tensor,
    ) -> None:
        count, width = token_table.shape
        selected = (int32_room(count, seq_lens), int32_room(count + 1, seq_lens))
        rows = (seq_lens, req_pool_indices, req_to_token)
        outputs = (keys, key_starts, token_table, *selected, real_page_table)
        function(*rows, *outputs, count, width, 2048, 64, pool)

    return launch


@ENGINE.adapts(
    f"{FILES}/verify.py",
    "fused_dsa_target_verify_metadata_kpool",
    operation="page_table",
    dialect=pooled("page_table", _table_outputs, cache_seqlens),
    domain=VERIFIES,
    _TILE_PROGRAM_TARGET=FEW_PROGRAMS,
)
def pooled_tables_of_verify(function: Any) -> Callable[..., None]:
    """Both tables of a verify step, with a row for each draft."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        pool: int,
        num_new: int,
        real_page_table: Tensor,
        token_table: Tensor,
        keys: Tensor,
        key_starts: Tensor,
    ) -> None:
        tokens, width = token_table.shape
        lens = (int32_room(tokens, keys), int32_room(tokens, keys), int32_room(tokens + 1, keys))
        rows = (seq_lens, req_pool_indices, req_to_token)
        outputs = (keys, key_starts, token_table, *lens, real_page_table)
        function(*rows, *outputs, len(keys), width, 2048, 64, num_new, None, pool)

    return launch


@ENGINE.adapts(
    f"{FILES}/draft_extend.py",
    "fused_dsa_draft_extend_metadata_kpool",
    operation="page_table",
    dialect=pooled("page_table", _table_outputs, lens_in_graph),
    domain=DRAFTS,
    _TILE_PROGRAM_TARGET=FEW_PROGRAMS,
)
def pooled_tables_of_draft_extend(function: Any) -> Callable[..., None]:
    """Both tables of a draft extend, with a row for each token."""

    def launch(
        lens_in_graph: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        pool: int,
        num_new: int,
        real_page_table: Tensor,
        token_table: Tensor,
        keys: Tensor,
        key_starts: Tensor,
    ) -> None:
        tokens, width = token_table.shape
        lens = (int32_room(tokens, keys), int32_room(tokens, keys), int32_room(tokens + 1, keys))
        rows = (lens_in_graph, req_pool_indices, req_to_token)
        outputs = (keys, key_starts, token_table, *lens, real_page_table)
        draft_extend(function, rows, outputs, width, 2048, num_new, pool)

    return launch
