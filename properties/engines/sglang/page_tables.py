"""Page tables of a step from the pool of requests, for each backend that builds its own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import page_columns, page_rows
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, STEPS

Tensor = torch.Tensor
_POWERS = {"block_sizes": (1, 2, 4, 8, 16, 32, 64, 128)}


def _table(expect: Callable[[Any, Inputs], list[Any]] = page_rows) -> Output:
    return Output(
        "page_table",
        axis="table_row",
        shape=lambda case: (case.num_requests_padded, page_columns(case)),
        expect=expect,
    )


def _cleared(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each request with zeros behind them."""
    return page_rows(answer, inputs, tail=0)


_CLEARED = having(SGLANG, "page_table", _table(_cleared))


def _decode_metadata(function: Any, *, zero_tail: bool) -> Callable[..., None]:
    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        draft_token_num: int,
        max_seq_pages: int,
        page_size: int,
        page_table: Tensor,
    ) -> None:
        lens = torch.empty(len(seq_lens), dtype=torch.int32, device=seq_lens.device)
        starts = torch.empty(len(seq_lens) + 1, dtype=torch.int32, device=seq_lens.device)
        rows = (req_to_token, req_pool_indices, max_seq_pages, seq_lens, draft_token_num, page_size)
        function(lens, starts, page_table, *rows, zero_tail=zero_tail)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "normal_decode_set_metadata",
    operation="page_table",
    domain=STEPS.having(**_POWERS, strided=True, views=("page_table",)),
)
def normal_decode_page_table(function: Any) -> Callable[..., None]:
    """Pages of decodes and of verify steps, whose lengths leave out the drafts; tails stay."""
    return _decode_metadata(function, zero_tail=False)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "normal_decode_set_metadata",
    operation="page_table",
    dialect=_CLEARED,
    domain=STEPS.having(**_POWERS),
)
def normal_decode_page_table_cleared(function: Any) -> Callable[..., None]:
    """The same with tails of zeros."""
    return _decode_metadata(function, zero_tail=True)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/kv_indices.py",
    "create_flashmla_kv_indices_triton",
    "get_num_kv_index_blocks_flashmla",
    operation="page_table",
    domain=STEPS.having(**_POWERS, strided=True, views=("page_table",)),
)
def flashmla_kv_indices(kernel: Any, num_blocks: Any) -> Callable[..., None]:
    """The block table of FlashMLA; tails stay."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cache_seqlens_int32: Tensor,
        page_size: int,
        page_table: Tensor,
    ) -> None:
        rows, width = page_table.shape
        tables = (req_to_token, req_pool_indices, cache_seqlens_int32, None, page_table)
        kernel[(rows, num_blocks(width, page_size))](
            *tables, req_to_token.stride(0), page_table.stride(0), PAGED_SIZE=page_size
        )

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/trtllm_mha_page_table.py",
    "build_trtllm_mha_page_table",
    operation="page_table",
    domain=STEPS.having(**_POWERS, strided=True, views=("page_table",)),
)
def trtllm_mha_page_table(function: Any) -> Callable[..., None]:
    """The block table of TensorRT-LLM's attention; tails stay."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cache_seqlens_int32: Tensor,
        page_size: int,
        page_table: Tensor,
    ) -> None:
        function(req_to_token, req_pool_indices, cache_seqlens_int32, page_table, page_size)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/aiter_unified_page_table.py",
    "scatter_req_to_token_to_page_table_kernel",
    operation="page_table",
    domain=STEPS.having(strided=True, views=("page_table",)),
)
def aiter_verify_page_table(kernel: Any) -> Callable[..., None]:
    """AITER's table from the pool, for verify steps; other steps have no drafts here. Tails stay."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cache_seqlens_int32: Tensor,
        draft_token_num: int,
        page_size: int,
        page_table: Tensor,
    ) -> None:
        rows, width = page_table.shape
        strides = (req_to_token.stride(0), page_table.stride(0))
        lens = cache_seqlens_int32 - draft_token_num
        sizes = {"DRAFT_NUM": draft_token_num, "PAGE_SIZE": page_size, "BLOCK_SIZE": 128, "HAS_SWA": False}
        tables = (req_to_token, req_pool_indices, lens, page_table, *strides, None, None)
        kernel[(rows, max(-(-width // 128), 1))](*tables, **sizes)

    return launch


def _token_starts(case: Case) -> Any:
    """Return the running sum of the lengths after the step."""
    return np.array([0, *np.cumsum(_lens(case))], dtype=np.int32)


def _lens(case: Case) -> list[int]:
    return [request.seq_len for request in case.batch.requests]


def _listed_tokens(case: Case) -> Any:
    """Return the slots of all keys of the step, request after request."""
    size = case.batch.block_size
    slots = [
        request.block_ids[p // size] * size + p % size
        for request in case.batch.requests
        for p in range(request.seq_len)
    ]
    return np.array(slots, dtype=np.int32)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/aiter_unified_page_table.py",
    "scatter_ragged_to_page_table_kernel",
    operation="page_table",
    dialect=SGLANG.extend(token_starts=_token_starts, listed_tokens=_listed_tokens),
    domain=STEPS.having(padding="none", strided=True, views=("page_table",)),
)
def aiter_page_table_of_list(kernel: Any) -> Callable[..., None]:
    """AITER's table from the list of slots; tails stay."""

    def launch(listed_tokens: Tensor, token_starts: Tensor, page_size: int, page_table: Tensor) -> None:
        rows, width = page_table.shape
        sizes = {"PAGE_SIZE": page_size, "BLOCK_SIZE": 128, "HAS_SWA": False}
        tables = (listed_tokens, token_starts, page_table, page_table.stride(0), None, None)
        kernel[(rows, max(-(-width // 128), 1))](*tables, **sizes)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/pa_page_table.py",
    "_build_pa_page_table",
    operation="page_table",
    dialect=_CLEARED,
    domain=DECODES.having(block_sizes=(1,)),
)
def pa_page_table(function: Any) -> Callable[..., Tensor]:
    """Slots of all keys: pages of one token, of prefills that the window of generated tokens leaves whole."""

    def launch(
        req_to_token: Tensor, req_pool_indices: Tensor, cache_seqlens_int32: Tensor, max_seq_pages: int
    ) -> Tensor:
        whole = torch.zeros(len(req_to_token), dtype=torch.int32, device=req_to_token.device)
        whole[req_pool_indices] = cache_seqlens_int32
        sizes = (1, len(req_pool_indices), max_seq_pages, req_to_token.device)
        table: Tensor = function(req_to_token, req_pool_indices, cache_seqlens_int32, whole, *sizes)[0]
        return table

    return launch
