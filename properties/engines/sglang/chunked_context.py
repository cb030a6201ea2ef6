"""Chunks of cached prefixes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS

Tensor = torch.Tensor


@ENGINE.adapts(
    "sglang/srt/model_executor/forward_batch_deepseek_mha_mixin.py",
    "ForwardBatchDeepSeekMHAMixin.get_prefix_chunk_seq_lens",
    operation="chunked_context",
    domain=EXTENDS,
)
def prefix_chunks(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Starts and lengths of the chunks of cached prefixes."""

    def launch(
        batch_size: int, extend_prefix_lens: Tensor, num_prefix_chunks: int, prefix_chunk_len: int
    ) -> dict[str, Tensor]:
        batch = SimpleNamespace(batch_size=batch_size)
        starts, lens = method(batch, extend_prefix_lens, num_prefix_chunks, prefix_chunk_len)
        return {"prefix_chunk_starts": starts, "prefix_chunk_seq_lens": lens}

    return launch
