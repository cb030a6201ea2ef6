"""Positions and running sums of a step."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.known import Known
from cumae.properties.engines.lightllm.engine import DECODES, ENGINE, MANY, NAMES, PREFILLS

Tensor = torch.Tensor
_KERNELS = "lightllm/common/basemodel/triton_kernel"


def _known(name: str, operation: str) -> Known:
    told = f"behind each tile, {operation} add the lengths of the first 1,024 requests again"
    return Known(f"lightllm-{name}", told, {"max_requests": 1024})


def _sums(params: tuple[Any, ...]) -> dict[str, Tensor]:
    """Return the running sums among the parameters of a step."""
    return {"cu_seqlens_q": params[1].int(), "cu_seqlens_k": params[3].int()}


@ENGINE.adapts(
    f"{_KERNELS}/gen_prefill_params.py",
    "gen_cumsum_pad0_tensor",
    operation="sequence_layout",
    dialect=NAMES,
    domain=PREFILLS.having(**MANY),
    known=_known("gen_cumsum_pad0_tensor", "running sums"),
)
def gen_cumsum_pad0_tensor(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sums of new tokens and of all tokens."""

    def launch(extend_seq_lens: Tensor, b_seq_len: Tensor) -> dict[str, Tensor]:
        queries, keys = function(extend_seq_lens, b_seq_len)
        return {"cu_seqlens_q": queries.int(), "cu_seqlens_k": keys.int()}

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/gen_prefill_params.py",
    "gen_prefill_params",
    operation="position_ids",
    dialect=NAMES,
    domain=PREFILLS.having(**MANY),
    known=_known("gen_prefill_positions", "first rows"),
)
def gen_prefill_positions(function: Any) -> Callable[..., Tensor]:
    """Positions of a prefill."""

    def launch(input_token_num: int, b_ready_cache_len: Tensor, b_seq_len: Tensor) -> Tensor:
        positions: Tensor = function(input_token_num, b_ready_cache_len, b_seq_len)[4]
        return positions

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/gen_prefill_params.py",
    "gen_prefill_params",
    operation="sequence_layout",
    dialect=NAMES,
    domain=PREFILLS.having(**MANY),
    known=_known("gen_prefill_params", "running sums"),
)
def gen_prefill_params(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sums of a prefill."""

    def launch(input_token_num: int, b_ready_cache_len: Tensor, b_seq_len: Tensor) -> dict[str, Tensor]:
        return _sums(function(input_token_num, b_ready_cache_len, b_seq_len))

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/gen_decode_params.py",
    "gen_decode_params",
    operation="position_ids",
    dialect=NAMES,
    domain=DECODES.having(**MANY),
)
def gen_decode_positions(function: Any) -> Callable[..., Tensor]:
    """Positions of decodes, as wide as the lengths."""

    def launch(b_seq_len: Tensor) -> Tensor:
        positions: Tensor = function(b_seq_len)[4]
        return positions.long()

    return launch


@ENGINE.adapts(
    f"{_KERNELS}/gen_decode_params.py",
    "gen_decode_params",
    operation="sequence_layout",
    dialect=NAMES,
    domain=DECODES.having(**MANY),
    known=_known("gen_decode_params", "running sums"),
)
def gen_decode_params(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sums of decodes."""

    def launch(b_seq_len: Tensor) -> dict[str, Tensor]:
        return _sums(function(b_seq_len))

    return launch
