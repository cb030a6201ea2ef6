"""Page tables of a captured decode step, from the pool of requests and through a map of slots."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import ANY, Inputs
from cumae.properties.dialects import SGLANG
from cumae.properties.dialects.sglang.step import cache_seqlens
from cumae.properties.engines.flashinfer.engine import ENGINE
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import DECODES
from cumae.properties.engines.sglang.graph_tables import of_requests
from cumae.properties.engines.sglang.mapped_tables import MAPPED, of_slots, table

Tensor = torch.Tensor
_REPLAY = "flashinfer/experimental/b12x/attention/paged/graph_replay.py"
_PAGES_OF_PROGRAM = 128


def _starts(inputs: Inputs) -> list[int]:
    return list(range(inputs.case.num_requests_padded + 1))


_BEHIND: dict[str, Any] = {"axis": "graph_row", "tail": ANY}
"""The rows of these tables, which hold anything behind the live pages."""
_TABLE = table("page_table", lambda _: int, **_BEHIND)
_STAGED = having(
    SGLANG,
    "page_table",
    _TABLE,
    table("swa_page_table", of_slots, **_BEHIND),
    of_requests("staged_lens", "the keys", 0, lambda inputs: cache_seqlens(inputs.case)),
    of_requests("staged_starts", "the number of requests before", 1, _starts),
)


@ENGINE.adapts(
    _REPLAY,
    "build_decode_graph_page_table_full_triton",
    operation="page_table",
    dialect=having(SGLANG, "page_table", _TABLE),
    domain=DECODES.having(block_sizes=MAPPED["block_sizes"]),
)
def pages_of_decode_graph(kernel: Any) -> Callable[..., None]:
    """The whole table, from the pool of requests."""

    def launch(
        req_to_token: Tensor, req_pool_indices: Tensor, max_seq_pages: int, page_size: int, page_table: Tensor
    ) -> None:
        grid = (len(req_pool_indices), -(-max_seq_pages // _PAGES_OF_PROGRAM))
        strides = req_to_token.stride(0), req_to_token.numel(), page_table.stride(0)
        sizes = page_size, max_seq_pages, _PAGES_OF_PROGRAM
        kernel[grid](req_to_token, req_pool_indices, page_table, *strides, *sizes)

    return launch


@ENGINE.adapts(
    _REPLAY,
    "stage_decode_cuda_graph_metadata_triton",
    operation="page_table",
    dialect=_STAGED,
    domain=DECODES.having(**MAPPED),
)
def staged_decode_graph(kernel: Any) -> Callable[..., None]:
    """Lengths, starts and both tables of a step, before its graph is replayed."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        max_seq_pages: int,
        page_size: int,
        full_to_swa_mapping: Tensor,
        page_table: Tensor,
        swa_page_table: Tensor,
        staged_lens: Tensor,
        staged_starts: Tensor,
    ) -> None:
        kernel[(len(seq_lens), -(-max_seq_pages // _PAGES_OF_PROGRAM))](
            req_to_token,
            req_pool_indices,
            seq_lens,
            staged_lens,
            staged_starts,
            page_table,
            swa_page_table,
            full_to_swa_mapping,
            req_to_token.stride(0),
            req_to_token.numel(),
            page_table.stride(0),
            swa_page_table.stride(0),
            req_pool_indices.stride(0),
            seq_lens.stride(0),
            len(full_to_swa_mapping),
            page_size,
            len(seq_lens),
            max_seq_pages,
            True,
            _PAGES_OF_PROGRAM,
        )

    return launch
