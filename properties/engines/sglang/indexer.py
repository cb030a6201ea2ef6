"""Inputs of the sparse indexer: windows, requests of tokens, selected slots."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import triton

from cumae.properties.engines.sglang.engine import DECODES, ENGINE, EXTENDS

Tensor = torch.Tensor


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "transform_index_page_table_decode",
    operation="topk_to_slots",
    domain=DECODES,
)
def transform_index_decode(function: Any) -> Callable[..., None]:
    """Selected positions of decodes, converted to slots."""

    def launch(page_table_1: Tensor, topk_indices: Tensor, result: Tensor) -> None:
        function(page_table_1, topk_indices, result=result)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "transform_index_page_table_prefill",
    operation="topk_to_slots",
    domain=EXTENDS,
)
def transform_index_prefill(function: Any) -> Callable[..., Tensor]:
    """Selected positions of an extend, converted to slots."""

    def launch(page_table_1: Tensor, topk_indices: Tensor, extend_seq_lens_cpu: Tensor) -> Tensor:
        found: Tensor = function(page_table_1, topk_indices, extend_seq_lens_cpu.tolist())
        return found

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/qsa/sparse_attn.py",
    "_resolve_prefill_slots",
    operation="topk_to_slots",
    domain=EXTENDS.having(max_requests=64, max_query_len=1024),
)
def qsa_prefill_slots(kernel: Any) -> Callable[..., None]:
    """Selected positions of an extend, converted to slots by a program for each token."""

    def launch(page_table_1: Tensor, topk_indices: Tensor, cu_seqlens_q: Tensor, result: Tensor) -> None:
        longest, topk = int(cu_seqlens_q.diff().max()), topk_indices.shape[1]
        tables = (topk_indices, result, cu_seqlens_q, page_table_1, len(page_table_1), topk)
        strides = (topk_indices.stride(0), result.stride(0), page_table_1.stride(0))
        width = triton.next_power_of_2(topk)
        kernel[(longest, len(cu_seqlens_q) - 1)](*tables, *strides, BLOCK=width)

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa_backend.py",
    "DeepseekSparseAttnBackend._cal_indexer_k_start_end",
    operation="causal_windows",
    domain=EXTENDS,
)
def indexer_k_start_end(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Windows of an extend for the sparse indexer."""

    def launch(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> dict[str, Tensor]:
        windows, _ = method(*_extend(seq_lens, extend_seq_lens_cpu))
        return dict(zip(("ks", "ke"), windows, strict=True))

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa_backend.py",
    "DeepseekSparseAttnBackend._cal_indexer_k_start_end",
    operation="sequence_layout",
    domain=EXTENDS,
)
def indexer_token_to_batch_idx(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Requests of an extend's tokens, from the same method."""

    def launch(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> dict[str, Tensor]:
        _, owners = method(*_extend(seq_lens, extend_seq_lens_cpu))
        return {"token_to_batch_idx": owners}

    return launch


def _extend(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Return stand-ins for the backend and the forward batch that the method reads."""
    mode = SimpleNamespace(is_extend_without_speculative=lambda: True, is_target_verify=lambda: False)
    batch = SimpleNamespace(
        forward_mode=mode,
        batch_size=len(seq_lens),
        seq_lens_cpu=seq_lens.cpu(),
        extend_seq_lens_cpu=extend_seq_lens_cpu.tolist(),
    )
    return SimpleNamespace(device=seq_lens.device), batch
