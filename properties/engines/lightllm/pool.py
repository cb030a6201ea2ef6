"""Slots in the pool of requests: written, copied to a page table, packed."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.dialects.sglang.step import pool_rows
from cumae.properties.engines.lightllm.engine import (
    DECODES,
    ENGINE,
    NAMES,
    PREFILLS,
    STEPS,
    first_rows,
    int32,
    seq_lens,
)
from cumae.properties.engines.pages import having, listed_slots, longest, slot_rows

Tensor = torch.Tensor
_KERNELS = "lightllm/common/basemodel/triton_kernel"


def _rows_of_tokens(case: Case) -> Any:
    """Return the pool's row of each new token."""
    owned = zip(pool_rows(case), case.batch.requests, strict=True)
    return int32([row for row, request in owned for _ in range(request.query_len)])


_WRITTEN = NAMES.extend(
    memindex=lambda case: int32(Inputs(case)["slot_mapping"]), rows_of_tokens=_rows_of_tokens
)

_SMALL_POOLS: dict[str, Any] = {
    "max_requests": 256,
    "max_context_len": 4096,
    "all_but": ("survives_large_ids",),
}
"""A pool of the same shape is made anew for each case, so it is small."""


@ENGINE.adapts(
    f"{_KERNELS}/copy_kv_index_to_req.py",
    "copy_kv_index_to_req_prefill",
    operation="slot_mapping",
    dialect=_WRITTEN,
    domain=PREFILLS.having(**_SMALL_POOLS, max_query_len=4096),
)
def copy_kv_index_of_prefills(function: Any) -> Callable[..., Tensor]:
    """New slots written into the pool, read back at each token's row and position."""

    def launch(
        req_to_token_indexs: Tensor,
        b_req_idx: Tensor,
        b_seq_len: Tensor,
        b_ready_cache_len: Tensor,
        b_start_loc: Tensor,
        memindex: Tensor,
        max_q_seq_len: int,
        rows_of_tokens: Tensor,
        positions: Tensor,
    ) -> Tensor:
        pool = torch.full_like(req_to_token_indexs, -1)
        lens = (b_seq_len, b_ready_cache_len, b_start_loc)
        function(pool, b_req_idx, *lens, memindex, max_q_seq_len)
        return pool[rows_of_tokens, positions].long()

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/copy_kv_index_to_req.py",
    "copy_kv_index_to_req",
    operation="slot_mapping",
    dialect=_WRITTEN,
    domain=DECODES.having(**_SMALL_POOLS),
)
def copy_kv_index_of_decodes(function: Any) -> Callable[..., Tensor]:
    """The slot of each decode written into the pool, read back at each token's row and position."""

    def launch(
        req_to_token_indexs: Tensor,
        b_req_idx: Tensor,
        b_seq_len: Tensor,
        memindex: Tensor,
        rows_of_tokens: Tensor,
        positions: Tensor,
    ) -> Tensor:
        pool = torch.full_like(req_to_token_indexs, -1)
        function(pool, b_req_idx, b_seq_len, memindex)
        return pool[rows_of_tokens, positions].long()

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/fa3_utils.py",
    "page_table_copy",
    operation="topk_to_slots",
    dialect=NAMES,
    domain=PREFILLS.having(**_SMALL_POOLS, max_query_len=4096),
)
def page_table_copy(function: Any) -> Callable[..., Tensor]:
    """Rows of the pool copied for FlashAttention 3, read at each selected position."""

    def launch(
        req_to_token_indexs: Tensor, b_req_idx: Tensor, token_to_batch_idx: Tensor, topk_indices: Tensor
    ) -> Tensor:
        shape = (len(b_req_idx), req_to_token_indexs.shape[1])
        table = torch.empty(shape, dtype=torch.int32, device=b_req_idx.device)
        function(table, req_to_token_indexs, b_req_idx)
        slots = table[token_to_batch_idx.unsqueeze(1), topk_indices.clamp(min=0)]
        return slots.masked_fill(topk_indices < 0, -1)

    return launch


@ENGINE.adapts(
    "lightllm/models/deepseek2/triton_kernel/repack_kv_index.py",
    "repack_kv_index",
    operation="slot_mapping",
    dialect=NAMES,
    domain=PREFILLS.having(max_context_len=0),
)
def repack_kv_index(function: Any) -> Callable[..., None]:
    """The slots of each request in turn, from position 0 on; so all are new here."""

    def launch(
        req_to_token_indexs: Tensor,
        b_req_idx: Tensor,
        b_seq_len: Tensor,
        b_start_loc: Tensor,
        max_q_seq_len: int,
        out_cache_loc: Tensor,
    ) -> None:
        rows = (req_to_token_indexs, b_req_idx, b_seq_len, b_start_loc)
        function(*rows, max_q_seq_len, out_cache_loc)

    return launch


_PAGES_OF_TOKENS = having(
    NAMES,
    "page_table",
    Output(
        "page_table",
        axis="table_row",
        shape=lambda case: (case.num_requests_padded, longest(case)),
        expect=lambda _, inputs: slot_rows(inputs),
    ),
)


@ENGINE.adapts(
    f"{_KERNELS}/fa3_utils.py",
    "page_table_copy",
    operation="page_table",
    dialect=_PAGES_OF_TOKENS,
    domain=STEPS.having(strided=True, views=("b_req_idx",)),
)
def page_table_of_tokens(function: Any) -> Callable[..., None]:
    """Rows of the pool as pages of one token, garbage behind the keys included."""

    def launch(page_table: Tensor, req_to_token_indexs: Tensor, b_req_idx: Tensor) -> None:
        function(page_table, req_to_token_indexs, b_req_idx)

    return launch


def _cleared_list(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of all keys, then zeros."""
    return [*listed_slots(inputs).kv_indices, *[0] * inputs.case.layout.num_spare_columns]


_PACKED = having(
    NAMES,
    "kv_indices",
    Output(
        "out_kv_index",
        axis="key",
        follows="kv_indices",
        shape=lambda case: (sum(seq_lens(case)) + case.layout.num_spare_columns,),
        expect=_cleared_list,
    ),
    first_keys=lambda case: int32(first_rows(case, "seq_len")),
    longest=longest,
)


@ENGINE.adapts(
    "lightllm/models/deepseek2/triton_kernel/repack_kv_index.py",
    "repack_kv_index",
    operation="kv_indices",
    dialect=_PACKED,
    domain=STEPS,
)
def repack_kv_index_of_keys(function: Any) -> Callable[..., None]:
    """The slots of all keys of each request in turn; the rest of the list is cleared."""

    def launch(
        req_to_token_indexs: Tensor,
        b_req_idx: Tensor,
        b_seq_len: Tensor,
        first_keys: Tensor,
        longest: int,
        out_kv_index: Tensor,
    ) -> None:
        function(req_to_token_indexs, b_req_idx, b_seq_len, first_keys, longest, out_kv_index)

    return launch
