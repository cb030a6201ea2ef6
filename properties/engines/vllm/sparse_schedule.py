"""How many keys each token of sparse attention reads: the number of its splits of one key."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_NAMES = CUMAE.extend(max_query_len=lambda case: max(r.query_len for r in case.batch.requests))


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla_sparse.py",
    "generate_sparse_seqlen_triton",
    operation="sparse_schedule",
    dialect=_NAMES,
    domain=STEPS.having(min_tokens=1, topk=(1, 2, 3, 64, 128), split_size=(1,)),
)
def generate_sparse_seqlen(function: Any) -> Callable[..., dict[str, Tensor]]:
    """min(position + 1, topk) of each token, 0 on padding."""

    def launch(
        seq_lens: Tensor, cu_seqlens_q: Tensor, topk: int, num_tokens_padded: int, max_query_len: int
    ) -> dict[str, Tensor]:
        lens = function(seq_lens, cu_seqlens_q, topk, num_tokens_padded, max_query_len)
        return {"num_splits": lens}

    return launch
