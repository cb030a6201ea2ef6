"""Slots that a step allocates from free pages."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import VLLM
from cumae.properties.engines.sglang.engine import ENGINE, starts, stops

Tensor = torch.Tensor


def _free_pages(case: Case) -> Any:
    """Return the pages that the step takes, in the order of its requests."""
    size = case.batch.block_size
    spans = [(-(-r.context_len // size), -(-r.seq_len // size), r.block_ids) for r in case.batch.requests]
    return np.array([page for start, stop, ids in spans for page in ids[start:stop]], dtype=np.int64)


def _last_locs(case: Case) -> Any:
    """Return the slot of each request's last cached token, -1 for none."""
    size, found = case.batch.block_size, []
    for request in case.batch.requests:
        page, offset = divmod(request.context_len - 1, size)
        found.append(request.block_ids[page] * size + offset if request.context_len else -1)
    return np.array(found, dtype=np.int64)


_PAGES = VLLM.extend(pre_lens=starts, post_lens=stops, last_locs=_last_locs, free_pages=_free_pages)
_TAKES = Domain(
    block_sizes=(1, 2, 4, 16, 64),
    min_requests=1,
    max_requests=1024,
    rowless_requests=False,
    padding="none",
    captured=False,
)
_ALLOCATOR = "sglang/kernels/ops/memory/allocator.py"


@ENGINE.adapts(_ALLOCATOR, "alloc_extend_kernel", operation="slot_mapping", dialect=_PAGES, domain=_TAKES)
def alloc_extend(kernel: Any) -> Callable[..., None]:
    """Slots allocated for an extend: the rest of each last page, then free pages."""

    def launch(
        pre_lens: Tensor,
        post_lens: Tensor,
        last_locs: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        lens = (pre_lens, post_lens)
        kernel[(num_reqs,)](*lens, last_locs, free_pages, slot_mapping, width, block_size)

    return launch


@ENGINE.adapts(
    _ALLOCATOR,
    "alloc_decode_kernel",
    operation="slot_mapping",
    dialect=_PAGES,
    domain=_TAKES.having(phases=("decode",), max_query_len=1, empty_requests=False),
)
def alloc_decode(kernel: Any) -> Callable[..., None]:
    """Slots allocated for decodes."""

    def launch(
        post_lens: Tensor,
        last_locs: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        kernel[(num_reqs,)](post_lens, last_locs, free_pages, slot_mapping, width, block_size)

    return launch
