"""Positions whose padding is left alone, and padded with zeros."""

import torch


def positions(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:  # fmt: skip
    """Leaves padding as it was."""
    live = torch.nonzero(token_to_request >= 0).flatten()
    b = token_to_request[live].long()
    position_ids[live] = (context_lens[b] + live - cu_seqlens_q[b]).to(position_ids.dtype)


def positions_and_zeros(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:  # fmt: skip
    position_ids.zero_()
    positions(token_to_request, cu_seqlens_q, context_lens, position_ids)
