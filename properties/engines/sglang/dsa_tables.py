"""The page tables and key starts of the fused metadata of sparse attention."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import ANY, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import DUMP_SLOT, num_pages, page_columns, page_rows
from cumae.properties.dialects.sglang.step import cache_seqlens, num_rows, pool_rows, slots_of
from cumae.properties.engines.arrays import int32_room
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, EXTENDS, STEPS

Tensor = torch.Tensor
_FILE = "sglang/kernels/ops/attention/dsa/metadata.py"
_PAGED: dict[str, Any] = {
    "block_sizes": (2, 4, 16, 32, 64, 128),
    "max_requests": 64,
    "max_tokens": 256,
    "max_context_len": 4096,
}
"""Pages of one token have no second table."""


def _of_tokens(rows: Sequence[list[Any]], case: Case) -> list[Any]:
    """Return each request's row once for each of its tokens; padded requests have as many as live ones."""
    live = [request.query_len for request in case.batch.requests]
    counts = live + live[:1] * case.layout.num_padding_requests
    return [entry for row, count in zip(rows, counts, strict=True) for entry in row * count]


def _pages(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each token's request; blocks of 128 columns are written behind them, too."""
    width, found = page_columns(inputs.case), page_rows(answer, inputs, tail=ANY)
    rows = [found[b * width : (b + 1) * width] for b in range(len(num_pages(inputs.case)))]
    return _of_tokens(rows, inputs.case)


def _longest(case: Case) -> int:
    return max(cache_seqlens(case))


def _slots(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of the keys of each token's request."""
    case, rows = inputs.case, list[list[Any]]()
    for row, request in zip(pool_rows(case), case.batch.requests, strict=True):
        rows.append([DUMP_SLOT] * request.seq_len if row == 0 else slots_of(case, request).tolist())
    rows += [[DUMP_SLOT] * length for length in cache_seqlens(case)[len(rows) :]]
    return _of_tokens([row + [ANY] * (_longest(case) - len(row)) for row in rows], case)


_TABLES = having(
    SGLANG,
    "page_table",
    Output(
        "real_page_table",
        follows="page_table",
        axis="row_of_token",
        shape=lambda case: (num_rows(case), page_columns(case)),
        expect=_pages,
    ),
    Output(
        "token_table",
        follows="page_table",
        axis="row_of_token",
        rule="a column holds the slot of its position",
        shape=lambda case: (num_rows(case), _longest(case)),
        expect=_slots,
    ),
    Output(
        "cu_seqlens_k",
        "int32",
        "key_start",
        "the running sum of the keys of each request",
        shape=lambda case: (case.num_requests_padded + 1,),
        expect=lambda _, inputs: [0, *accumulate(cache_seqlens(inputs.case))],
    ),
    longest=_longest,
)


@ENGINE.adapts(
    _FILE,
    "fused_dsa_decode_metadata",
    operation="page_table",
    dialect=_TABLES,
    domain=DECODES.having(**_PAGED),
)
def dsa_tables_of_decodes(function: Any) -> Callable[..., None]:
    """Both tables of decodes of one token."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        longest: int,
        page_size: int,
        cu_seqlens_k: Tensor,
        token_table: Tensor,
        real_page_table: Tensor,
    ) -> None:
        count = len(seq_lens)
        lens = (int32_room(count, seq_lens), cu_seqlens_k, token_table)
        selected = (int32_room(count, seq_lens), int32_room(count + 1, seq_lens), real_page_table)
        rows = (seq_lens, req_pool_indices, req_to_token)
        function(*rows, *lens, *selected, count, longest, 2048, page_size)

    return launch


@ENGINE.adapts(
    _FILE,
    "fused_dsa_target_verify_metadata",
    operation="page_table",
    dialect=_TABLES,
    domain=STEPS.having(phases=("decode",), verify_steps=True, **_PAGED),
)
def dsa_tables_of_verify(function: Any) -> Callable[..., None]:
    """Both tables of a verify step, with a row for each draft."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        longest: int,
        page_size: int,
        draft_token_num: int,
        cu_seqlens_k: Tensor,
        token_table: Tensor,
        real_page_table: Tensor,
    ) -> None:
        count, tokens = len(seq_lens), len(real_page_table)
        lens = (int32_room(count, seq_lens), cu_seqlens_k, token_table, int32_room(tokens, seq_lens))
        selected = (int32_room(tokens, seq_lens), int32_room(tokens + 1, seq_lens), real_page_table)
        rows = (seq_lens, req_pool_indices, req_to_token)
        function(*rows, *lens, *selected, count, longest, 2048, page_size, draft_token_num)

    return launch


@ENGINE.adapts(
    _FILE,
    "fused_dsa_draft_extend_metadata",
    operation="page_table",
    dialect=_TABLES,
    domain=EXTENDS.having(**_PAGED),
)
def dsa_tables_of_draft_extend(function: Any) -> Callable[..., None]:
    """Both tables of an extend, with a row for each token."""

    def launch(
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        longest: int,
        page_size: int,
        cu_seqlens_k: Tensor,
        token_table: Tensor,
        real_page_table: Tensor,
    ) -> None:
        count, tokens = len(seq_lens), len(real_page_table)
        lens = (int32_room(count, seq_lens), cu_seqlens_k, token_table, int32_room(tokens, seq_lens))
        selected = (int32_room(tokens, seq_lens), int32_room(tokens + 1, seq_lens), real_page_table)
        rows = (seq_lens, extend_seq_lens, req_pool_indices, req_to_token)
        sizes = (count, tokens, longest, 2048, page_size, int(extend_seq_lens.max()), tokens)
        function(*rows, *lens, *selected, *sizes)

    return launch
