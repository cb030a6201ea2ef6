"""Positions of extends and of decodes."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import DECODES, ENGINE, EXTENDS

Tensor = torch.Tensor


@ENGINE.adapts(
    "sglang/kernels/ops/attention/position.py",
    "compute_position_triton",
    operation="position_ids",
    domain=EXTENDS,
)
def compute_position_triton(function: Any) -> Callable[..., Tensor]:
    """Positions of an extend, by Triton."""

    def launch(extend_prefix_lens: Tensor, extend_seq_lens: Tensor, extend_num_tokens: int) -> Tensor:
        positions: Tensor = function(extend_prefix_lens, extend_seq_lens, extend_num_tokens)[0]
        return positions

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/position.py",
    "compute_position_triton",
    operation="position_ids",
    domain=EXTENDS.having(max_context_len=0),
)
def positions_without_prefixes(function: Any) -> Callable[..., Tensor]:
    """Positions of an extend of which no request has a prefix: their lengths are an empty tensor."""

    def launch(extend_prefix_lens: Tensor, extend_seq_lens: Tensor, extend_num_tokens: int) -> Tensor:
        positions: Tensor = function(extend_prefix_lens[:0], extend_seq_lens, extend_num_tokens)[0]
        return positions

    return launch


@ENGINE.adapts(
    "sglang/srt/model_executor/forward_batch_info.py",
    "compute_position_torch",
    operation="position_ids",
    domain=EXTENDS,
)
def compute_position_torch(function: Any) -> Callable[..., Tensor]:
    """Positions of an extend, in torch."""

    def launch(extend_prefix_lens: Tensor, extend_seq_lens: Tensor) -> Tensor:
        positions: Tensor = function(extend_prefix_lens, extend_seq_lens)[0]
        return positions

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/clamp_position.py",
    "ClampPositionOp.forward_native",
    operation="position_ids",
    domain=DECODES,
)
def clamp_position(method: Any) -> Callable[..., Tensor]:
    """Positions of decodes."""

    def launch(seq_lens: Tensor) -> Tensor:
        positions: Tensor = method(None, seq_lens)
        return positions

    return launch
