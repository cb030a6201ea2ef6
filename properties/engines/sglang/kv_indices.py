"""Slots of requests packed into one list, and written into the pool."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG
from cumae.properties.dialects.sglang.step import pool_rows, slots_of
from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS, STEPS, starts, stops

Tensor = torch.Tensor
_INDICES = "sglang/kernels/ops/attention/kv_indices.py"
_UNPADDED = STEPS.having(padding="none")


def _lens(case: Case) -> Any:
    return np.array([request.query_len for request in case.batch.requests], dtype=np.int32)


def _indptr(case: Case) -> Any:
    return np.concatenate([[0], np.cumsum(_lens(case))]).astype(np.int32)


_PACKED = SGLANG.extend(kv_start_idx=starts, page_kernel_lens=_lens, indptr=_indptr)


@ENGINE.adapts(
    _INDICES,
    "create_flashinfer_kv_indices_triton",
    operation="slot_mapping",
    dialect=_PACKED,
    domain=_UNPADDED,
)
def flashinfer_kv_indices(kernel: Any) -> Callable[..., None]:
    """Slots of a range of positions of each request; here, of the new ones."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        page_kernel_lens: Tensor,
        indptr: Tensor,
        kv_start_idx: Tensor,
        out_cache_loc: Tensor,
    ) -> None:
        rows = (req_to_token, req_pool_indices, page_kernel_lens, indptr, kv_start_idx)
        kernel[(len(req_pool_indices),)](*rows, out_cache_loc, req_to_token.stride(0))

    return launch


@ENGINE.adapts(
    _INDICES,
    "create_flashinfer_kv_indices_triton",
    operation="slot_mapping",
    dialect=_PACKED,
    domain=_UNPADDED,
)
def flashinfer_kv_indices_of_pages(kernel: Any) -> Callable[..., None]:
    """The same from a table of pages, by several programs for each request."""

    def launch(
        page_table: Tensor,
        page_kernel_lens: Tensor,
        indptr: Tensor,
        kv_start_idx: Tensor,
        page_size: int,
        out_cache_loc: Tensor,
    ) -> None:
        count = len(page_kernel_lens)
        rows = torch.arange(count, device=page_table.device)
        kernel[(count, 3)](
            page_table,
            rows,
            page_kernel_lens,
            indptr,
            kv_start_idx,
            out_cache_loc,
            page_table.stride(0),
            ENTRY_PAGE_SIZE=page_size,
            TOKEN_BLOCK_PARALLEL=True,
        )

    return launch


@ENGINE.adapts(
    _INDICES,
    "create_chunked_prefix_cache_kv_indices",
    operation="slot_mapping",
    dialect=_PACKED,
    domain=_UNPADDED,
)
def chunked_prefix_kv_indices(kernel: Any) -> Callable[..., None]:
    """Slots of a chunk of each request; here, of the new positions."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        kv_start_idx: Tensor,
        page_kernel_lens: Tensor,
        indptr: Tensor,
        out_cache_loc: Tensor,
    ) -> None:
        rows = (req_to_token, req_pool_indices, kv_start_idx, page_kernel_lens, indptr)
        kernel[(len(req_pool_indices),)](*rows, out_cache_loc, req_to_token.stride(0))

    return launch


def _rows_of_tokens(case: Case) -> Any:
    owned = zip(pool_rows(case), case.batch.requests, strict=True)
    return np.array([row for row, r in owned for _ in range(r.query_len)], dtype=np.int64)


def _prefix_slots(case: Case) -> Any:
    """Return the slots of each request's cached tokens, -1 behind them."""
    rows = [slots_of(case, request)[: request.context_len] for request in case.batch.requests]
    found = np.full((len(rows), max(max(map(len, rows)), 1)), -1, dtype=np.int64)
    for b, slots in enumerate(rows):
        found[b, : len(slots)] = slots
    return found


_WRITTEN = SGLANG.extend(
    prefix_slots=_prefix_slots,
    pre_lens=starts,
    post_lens=stops,
    new_slots=lambda case: np.array(Inputs(case)["slot_mapping"], dtype=np.int64),
    rows_of_tokens=_rows_of_tokens,
)


@ENGINE.adapts(
    "sglang/kernels/ops/memory/common.py",
    "write_req_to_token_pool_triton",
    operation="slot_mapping",
    dialect=_WRITTEN,
    domain=EXTENDS.having(
        max_requests=256, max_context_len=4096, max_query_len=4096, all_but=("survives_large_ids",)
    ),
)
def write_req_to_token_pool(kernel: Any) -> Callable[..., Tensor]:
    """New slots written behind each prefix, read back at each token's row and position.

    A pool of the same shape is made anew for each case, so it is small.
    """

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        pre_lens: Tensor,
        post_lens: Tensor,
        prefix_slots: Tensor,
        extend_seq_lens: Tensor,
        new_slots: Tensor,
        rows_of_tokens: Tensor,
        positions: Tensor,
    ) -> Tensor:
        pool, count = torch.full_like(req_to_token, -1), len(prefix_slots)
        addresses = prefix_slots.data_ptr() + 8 * prefix_slots.stride(0) * torch.arange(count)
        lens = (pre_lens, post_lens, extend_seq_lens)
        written = (addresses.to(pool.device), *lens, new_slots, pool.stride(0))
        kernel[(count,)](pool, req_pool_indices, *written)
        return pool[rows_of_tokens, positions].long()

    return launch
