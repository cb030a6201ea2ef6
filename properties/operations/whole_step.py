"""`write_step_metadata` as the four operations that it writes: each function keeps one and drops the rest."""

from typing import Any

import torch

from cumae import gpu_impl
from cumae.gpu_impl.sequence_layout import KeyScope
from cumae.oracle import OperationName

_NAMES: tuple[OperationName, ...] = ("sequence_layout", "position_ids", "slot_mapping", "causal_windows")
WHOLE_STEP = {f"cumae.properties.operations.whole_step:fused_{name}": name for name in _NAMES}
"""The functions here as targets, and the operation of each."""
NEUTRAL: dict[str, Any] = {
    "row_index": None,
    "block_size": 1,
    "kernel_block_size": 1,
    "compress_ratio": 1,
    "window": 0,
    "world": 1,
    "rank": 0,
    "interleave": 1,
    "key_scope": "all",
    "token_padding": -1,
    "dummy_request": False,
}


def _write(
    num_tokens_padded: int, context_lens: torch.Tensor, query_lens: torch.Tensor, **given: Any
) -> None:
    """Call the kernel; options that are not given are neutral, and outputs go to tensors of their own."""
    num_requests, device = context_lens.numel(), context_lens.device
    sizes = {"cu_seqlens_q": num_requests + 1, "cu_seqlens_k": num_requests + 1, "max_seqlen_q": 1}
    sizes |= {"max_seqlen_k": 1} | dict.fromkeys(("token_to_request", "ks", "ke"), num_tokens_padded)
    dropped = {name: torch.empty(size, dtype=torch.int32, device=device) for name, size in sizes.items()}
    for name in ("position_ids", "slot_mapping"):
        dropped[name] = torch.empty(num_tokens_padded, dtype=torch.int64, device=device)
    inputs = {
        "is_prefill": torch.ones(num_requests, dtype=torch.bool, device=device),
        "block_table": torch.zeros(num_requests, 1, dtype=torch.int32, device=device),
    }
    arguments = NEUTRAL | inputs | dropped | given
    gpu_impl.write_step_metadata(context_lens, query_lens, **arguments)


def fused_sequence_layout(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    key_scope: KeyScope,
    token_padding: int,
    dummy_request: bool,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    token_to_request: torch.Tensor,
    max_seqlen_q: torch.Tensor,
    max_seqlen_k: torch.Tensor,
) -> None:
    """Write the layout."""
    _write(
        token_to_request.numel(),
        context_lens,
        query_lens,
        is_prefill=is_prefill,
        compress_ratio=compress_ratio,
        key_scope=key_scope,
        token_padding=token_padding,
        dummy_request=dummy_request,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        token_to_request=token_to_request,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
    )


def fused_position_ids(
    context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    """Write the positions."""
    _write(position_ids.numel(), context_lens, query_lens, position_ids=position_ids)


def fused_slot_mapping(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    token_to_request: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor,
    block_size: int,
    kernel_block_size: int,
    world: int,
    rank: int,
    interleave: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Write the slots; of token_to_request only the length is used."""
    _write(
        token_to_request.numel(),
        context_lens,
        query_lens,
        block_table=block_table,
        row_index=row_index,
        block_size=block_size,
        kernel_block_size=kernel_block_size,
        world=world,
        rank=rank,
        interleave=interleave,
        slot_mapping=slot_mapping,
    )


def fused_causal_windows(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    compress_ratio: int,
    window: int,
    key_scope: KeyScope,
    world: int,
    rank: int,
    interleave: int,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """Write the windows."""
    _write(
        ks.numel(),
        context_lens,
        query_lens,
        is_prefill=is_prefill,
        block_size=interleave,
        compress_ratio=compress_ratio,
        window=window,
        key_scope=key_scope,
        world=world,
        rank=rank,
        interleave=interleave,
        ks=ks,
        ke=ke,
    )
