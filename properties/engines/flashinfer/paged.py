"""Arrays that FlashInfer derives of appended tokens and of lists of pages."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import CUMAE
from cumae.properties.engines.flashinfer.engine import ENGINE

Tensor = torch.Tensor


@ENGINE.adapts(
    "flashinfer/page.py",
    "get_batch_indices_positions",
    operation="position_ids",
    domain=Domain(min_requests=1, captured=False),
)
def positions_of_append(function: Any) -> Callable[..., None]:
    """Positions of appended tokens."""

    def launch(append_indptr: Tensor, seq_lens: Tensor, nnz: int, positions: Tensor) -> None:
        function(append_indptr, seq_lens, nnz, None, positions)

    return launch


@ENGINE.adapts(
    "flashinfer/page.py",
    "get_batch_indices_positions",
    operation="sequence_layout",
    domain=Domain(min_requests=1, captured=False),
)
def batch_indices_of_append(function: Any) -> Callable[..., None]:
    """Requests of appended tokens."""

    def launch(append_indptr: Tensor, seq_lens: Tensor, nnz: int, batch_indices: Tensor) -> None:
        function(append_indptr, seq_lens, nnz, batch_indices)

    return launch


@ENGINE.adapts(
    "flashinfer/prefill.py",
    "_build_block_tables_from_paged_kv_indices",
    operation="page_table",
    domain=Domain(min_requests=1, captured=False),
)
def block_tables_of_plan(function: Any) -> Callable[..., Tensor]:
    """The table of pages that `plan` makes of their list, for backends that read a table."""

    def launch(paged_kv_indptr: Tensor, paged_kv_indices: Tensor) -> Tensor:
        count, device = len(paged_kv_indptr) - 1, paged_kv_indices.device
        table: Tensor = function(paged_kv_indptr.cpu(), paged_kv_indices, count, device)
        return table

    return launch


def _num_pages(case: Case) -> list[int]:
    size = case.batch.block_size
    return [-(-request.seq_len // size) for request in case.batch.requests]


def _kv_indptr(case: Case) -> Any:
    return np.array([0, *accumulate(_num_pages(case))], dtype=np.int32)


def _last_page_lens(case: Case) -> Any:
    """Return the tokens in the last page of each request, 0 without a page."""
    size = case.batch.block_size
    lens = [request.seq_len for request in case.batch.requests]
    return np.array([(length - 1) % size + 1 if length else 0 for length in lens], dtype=np.int32)


@ENGINE.adapts(
    "flashinfer/page.py",
    "get_seq_lens",
    operation="local_lens",
    dialect=CUMAE.extend(kv_indptr=_kv_indptr, kv_last_page_len=_last_page_lens),
    domain=Domain(min_requests=1, world=(1,), padding="none", captured=False),
)
def seq_lens_of_pages(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Lengths from the number of pages and the tokens in the last one; one rank holds all of them."""

    def launch(kv_indptr: Tensor, kv_last_page_len: Tensor, block_size: int) -> dict[str, Tensor]:
        return {"local_lens": function(kv_indptr, kv_last_page_len, block_size)}

    return launch
