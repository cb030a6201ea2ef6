"""Positions whose padding is left alone, and padded with zeros."""

import torch


def positions(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:  # fmt: skip
    """Leaves padding as it was."""
    for t, b in enumerate(token_to_request.tolist()):
        if b >= 0:
            position_ids[t] = int(context_lens[b]) + t - int(cu_seqlens_q[b])


def positions_and_zeros(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:  # fmt: skip
    position_ids.zero_()
    positions(token_to_request, cu_seqlens_q, context_lens, position_ids)
