"""The keys of each token of an extend, whose requests are expanded to one for each token."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.step import num_rows
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, EXTENDS

Tensor = torch.Tensor
_CAUSAL = "sglang/kernels/ops/attention/dsv4/attn_metadata_kernels.py"
_FEW: dict[str, Any] = {"max_requests": 64, "max_tokens": 1024, "max_context_len": 4096}


@ENGINE.adapts(
    _CAUSAL, "expand_prefill_causally_triton", operation="flat_decodes", domain=EXTENDS.having(**_FEW)
)
def expand_causally_by_triton(function: Any) -> Callable[..., dict[str, Tensor]]:
    """By tiles of tokens that are compared with all requests."""

    def launch(
        req_pool_indices: Tensor, seq_lens: Tensor, extend_seq_lens: Tensor, num_token_non_padded: int
    ) -> dict[str, Tensor]:
        found = function(
            req_pool_indices=req_pool_indices,
            seq_lens=seq_lens,
            extend_seq_lens=extend_seq_lens,
            num_tokens=num_token_non_padded,
            padded_num_tokens=None,
        )
        return {"seqlens_expanded": found.seq_lens_casual}

    return launch


def _ones_on_padding(answer: Any, inputs: Inputs) -> list[int]:
    live = inputs.case.batch.num_tokens
    return [*answer.key_lens[:live], *[1] * (num_rows(inputs.case) - live)]


@ENGINE.adapts(
    _CAUSAL,
    "expand_prefill_causally_triton",
    operation="flat_decodes",
    dialect=having(
        SGLANG,
        "flat_decodes",
        Output(
            "seqlens_expanded",
            follows="key_lens",
            shape=lambda case: (num_rows(case),),
            expect=_ones_on_padding,
        ),
        num_requests=lambda case: len(case.batch.requests),
        num_rows=num_rows,
    ),
    domain=EXTENDS.having(padding="written", **_FEW),
)
def expand_causally_with_padding(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same with padded tokens, which see one key."""

    def launch(
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        num_requests: int,
        num_token_non_padded: int,
        num_rows: int,
    ) -> dict[str, Tensor]:
        found = function(
            req_pool_indices=req_pool_indices[:num_requests],
            seq_lens=seq_lens[:num_requests],
            extend_seq_lens=extend_seq_lens[:num_requests],
            num_tokens=num_token_non_padded,
            padded_num_tokens=num_rows,
        )
        return {"seqlens_expanded": found.seq_lens_casual}

    return launch


def _expanded(function: Any, **more: Any) -> dict[str, Tensor]:
    """Return the keys of each token as the torch function says."""
    found = function(padded_num_tokens=None, **more)
    return {"seqlens_expanded": found.seq_lens_casual.int()}


@ENGINE.adapts(_CAUSAL, "expand_prefill_causally", operation="flat_decodes", domain=EXTENDS)
def expand_causally(function: Any) -> Callable[..., dict[str, Tensor]]:
    """In torch, from lengths and first rows on the device."""

    def launch(
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        extend_start_loc: Tensor,
        num_token_non_padded: int,
    ) -> dict[str, Tensor]:
        return _expanded(
            function,
            req_pool_indices=req_pool_indices,
            seq_lens=seq_lens,
            extend_seq_lens=extend_seq_lens,
            extend_start_loc=extend_start_loc,
            seq_lens_cpu=None,
            extend_seq_lens_cpu=None,
            num_tokens=num_token_non_padded,
        )

    return launch


@ENGINE.adapts(_CAUSAL, "expand_prefill_causally", operation="flat_decodes", domain=EXTENDS)
def expand_causally_on_host(function: Any) -> Callable[..., dict[str, Tensor]]:
    """In torch, request by request, from lengths on the host."""

    def launch(
        req_pool_indices: Tensor, seq_lens: Tensor, extend_seq_lens_cpu: Tensor, num_token_non_padded: int
    ) -> dict[str, Tensor]:
        return _expanded(
            function,
            req_pool_indices=req_pool_indices,
            seq_lens=seq_lens,
            extend_seq_lens=extend_seq_lens_cpu,
            extend_start_loc=None,
            seq_lens_cpu=seq_lens.tolist(),
            extend_seq_lens_cpu=extend_seq_lens_cpu.tolist(),
            num_tokens=num_token_non_padded,
        )

    return launch
