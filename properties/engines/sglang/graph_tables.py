"""Tables and lengths of a captured step, and tables by token, each with what goes with it."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.step import cache_seqlens, num_rows
from cumae.properties.engines.pages import having, longest
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.engines.sglang.mapped_tables import LOCS, MAPPED, SLOT_TABLES

Tensor = torch.Tensor


def of_requests(name: str, rule: str, more: int, values: Callable[[Inputs], list[Any]]) -> Output:
    """Return an output of a captured step with an entry for each request, and ``more`` of them."""
    return Output(
        name,
        "int32",
        "graph_request",
        rule,
        follows="page_table",
        shape=lambda case: (case.num_requests_padded + more,),
        expect=lambda _, inputs: values(inputs),
    )


def _starts_k(inputs: Inputs) -> list[Any]:
    """Return the running sum of the lengths; the first entry is 0 from the beginning and is not written."""
    return [UNTOUCHED, *accumulate(cache_seqlens(inputs.case))]


def _starts_q(inputs: Inputs) -> list[Any]:
    each = num_rows(inputs.case) // inputs.case.num_requests_padded
    return [UNTOUCHED, *(each * (b + 1) for b in range(inputs.case.num_requests_padded))]


@ENGINE.adapts(
    "sglang/kernels/ops/attention/trtllm_mha_graph_metadata.py",
    "update_trtllm_mha_graph_metadata",
    operation="page_table",
    dialect=having(
        SGLANG,
        "page_table",
        *SLOT_TABLES,
        LOCS,
        of_requests("graph_lens", "the keys", 0, lambda inputs: cache_seqlens(inputs.case)),
        of_requests("graph_starts_k", "the running sum of the keys", 1, _starts_k),
        of_requests("graph_starts_q", "the running sum of the new tokens", 1, _starts_q),
        num_rows=num_rows,
    ),
    domain=STEPS.having(phases=("decode",), verify_steps=True, max_query_len=64, **MAPPED),
)
def trtllm_mha_graph_metadata(function: Any) -> Callable[..., None]:
    """TensorRT-LLM's attention in a graph: both tables, lengths and slots by one kernel.

    New tokens are counted by a stride, or by their lengths where the number of requests is odd.
    """

    def launch(
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        req_to_token: Tensor,
        draft_token_num: int,
        max_seq_pages: int,
        page_size: int,
        full_to_swa_mapping: Tensor,
        raw_out_loc: Tensor,
        page_table: Tensor,
        swa_page_table: Tensor,
        swa_out_cache_loc: Tensor,
        graph_lens: Tensor,
        graph_starts_k: Tensor,
        graph_starts_q: Tensor,
    ) -> None:
        count = len(seq_lens)
        function(
            req_pool_indices=req_pool_indices,
            seq_lens=seq_lens,
            req_to_token=req_to_token,
            cache_seqlens=graph_lens,
            cu_seqlens_k=graph_starts_k,
            page_table=page_table,
            bs=count,
            seqlen_offset=draft_token_num,
            max_seq_pages=max_seq_pages,
            page_size=page_size,
            swa_mapping=full_to_swa_mapping,
            swa_page_table=swa_page_table,
            out_cache_loc=raw_out_loc,
            swa_out_cache_loc=swa_out_cache_loc,
            cu_seqlens_q=graph_starts_q,
            qlens=torch.full_like(seq_lens, draft_token_num) if count % 2 else None,
            q_stride=draft_token_num,
            q_mode=1 if count % 2 else 2,
        )

    return launch


def _by_token(case: Case) -> int:
    """Return the columns of a table by token."""
    return -(-longest(case) // case.batch.block_size)


def _token_tables(_: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each token's request, anything behind them and on padding."""
    case, width, found = inputs.case, _by_token(inputs.case), list[Any]()
    for request in case.batch.requests:
        count = case.batch.num_live_blocks(request)
        row = [*request.block_ids[:count], *[ANY] * (width - count)]
        found += row * request.query_len
    return found + [ANY] * (num_rows(case) * width - len(found))


def _token_lens(inputs: Inputs, less: int) -> list[int]:
    case = inputs.case
    lens = [position + 1 for position in inputs["position_ids"][: case.batch.num_tokens]]
    lens += [1] * (num_rows(case) - len(lens))
    return [length - less for length in lens]


def _of_tokens(name: str, rule: str, less: int) -> Output:
    return Output(
        name,
        "int32",
        "table_token",
        rule,
        follows="window_lens",
        shape=lambda case: (num_rows(case),),
        expect=lambda _, inputs: _token_lens(inputs, less),
    )


_BY_TOKEN = having(
    SGLANG,
    "window_slots",
    *(one for one in SGLANG.outputs["window_slots"] if one.name == "swa_topk_lengths"),
    _of_tokens("token_lens", "the position plus one", 0),
    _of_tokens("token_positions", "the position", 1),
    Output(
        "token_tables",
        "int32",
        "table_token_page",
        "the pages of the token's request",
        follows="window_lens",
        shape=lambda case: (num_rows(case), _by_token(case)),
        expect=_token_tables,
    ),
    longest_request=longest,
)
_POWERS = STEPS.having(
    block_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
    missing_blocks=False,
    rowless_requests=False,
    padding="none",
    window=(1, 2, 3, 16, 127, 128, 129, 1024),
)


def _tables_of_tokens(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(
        req_to_token: Tensor,
        req_pool_indices_repeated: Tensor,
        seq_lens_casual: Tensor,
        longest_request: int,
        page_size: int,
        swa_window: int,
    ) -> dict[str, Tensor]:
        found = function(
            req_to_token=req_to_token,
            req_pool_indices_repeated=req_pool_indices_repeated,
            seq_lens_casual=seq_lens_casual,
            max_seq_len=longest_request,
            page_size=page_size,
            swa_window=swa_window,
        )
        return {
            "token_lens": found.seq_lens_casual,
            "token_positions": found.positions_casual,
            "token_tables": found.page_table,
            "swa_topk_lengths": found.swa_topk_lengths,
        }

    return launch


_FILE = "sglang/kernels/ops/attention/dsv4/attn_metadata_kernels.py"


@ENGINE.adapts(
    _FILE, "build_page_table_positions", operation="window_slots", dialect=_BY_TOKEN, domain=_POWERS
)
def token_tables(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4: a row of pages for each token, in torch."""
    return _tables_of_tokens(function)


@ENGINE.adapts(
    _FILE, "build_page_table_positions_triton", operation="window_slots", dialect=_BY_TOKEN, domain=_POWERS
)
def token_tables_by_triton(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same by a program for each row."""
    return _tables_of_tokens(function)


@ENGINE.adapts(
    _FILE, "build_page_table_positions_small", operation="window_slots", dialect=_BY_TOKEN, domain=_POWERS
)
def token_tables_of_small_steps(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same by a program for each 256 pages of a row."""
    return _tables_of_tokens(function)
