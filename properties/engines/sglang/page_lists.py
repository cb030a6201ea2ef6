"""Lists of the pages, and of the slots, in which each request's keys are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import listed_slots, num_pages, page_rows, read_lens
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_UNPADDED = STEPS.having(padding="none")


def _listed_pages(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each request, without the columns behind them."""
    return [page for page in page_rows(answer, inputs) if page is not UNTOUCHED]


@ENGINE.adapts(
    "sglang/srt/layers/attention/minimax_sparse_ops/msa.py",
    "_build_page_table",
    operation="page_table",
    dialect=having(
        SGLANG,
        "page_table",
        Output(
            "listed_pages",
            "int32",
            "listed_page",
            "the pages of all requests, in order",
            follows="page_table",
            shape=lambda case: (sum(num_pages(case)),),
            expect=_listed_pages,
        ),
    ),
    domain=_UNPADDED,
)
def msa_pages(function: Any) -> Callable[..., dict[str, Tensor]]:
    """MiniMax's sparse attention: the pages of all requests in one list, each by its first slot."""

    def launch(
        req_to_token: Tensor, req_pool_indices: Tensor, cache_seqlens_int32: Tensor, page_size: int
    ) -> dict[str, Tensor]:
        return {"listed_pages": function(req_to_token, req_pool_indices, cache_seqlens_int32, page_size)}

    return launch


def _listed_slots(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of each request's listed keys, without the room behind them."""
    listed = listed_slots(inputs)
    return list(listed.kv_indices[: listed.kv_indptr[-1]])


def _num_slots(case: Case) -> int:
    window = case.options.keys.window
    return sum(min(length, window) if window else length for length in read_lens(case))


@ENGINE.adapts(
    "sglang/srt/hardware_backend/npu/attention/ascend_dsv4_backend.py",
    "_get_kv_indices",
    operation="kv_indices",
    dialect=having(
        SGLANG,
        "kv_indices",
        Output(
            "slots_to_read",
            "int32",
            "key",
            "the slots of each request's keys, of its last ones with a window",
            follows="kv_indices",
            shape=lambda case: (_num_slots(case),),
            expect=_listed_slots,
        ),
        lens_to_read=lambda case: np.array(read_lens(case), dtype=np.int32),
    ),
    domain=_UNPADDED,
)
def npu_kv_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Slots of all keys of a request, or of the last ones, from its row of the page table."""

    def launch(
        page_table: Tensor, lens_to_read: Tensor, sliding_window_size: int, page_size: int
    ) -> dict[str, Tensor]:
        lens = lens_to_read.tolist()
        rows = [(sliding_window_size or n, page_table, b, n, page_size) for b, n in enumerate(lens)]
        return {"slots_to_read": torch.cat([function(None, *row) for row in rows]).int()}

    return launch
