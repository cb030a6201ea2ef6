"""A kernel to mutate, and a judge whose process dies."""

import os
from typing import Any

import torch
import triton
import triton.language as tl

from cumae.properties.search.child import Tell

TILE = 64


@triton.jit
def _write(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    position_ids: tl.tensor,
    num_tokens: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    m_token = o_token < num_tokens
    i_request = tl.load(token_to_request + o_token, mask=m_token, other=-1)
    m_live = i_request >= 0
    start = 1 * tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
    position = tl.load(context_lens + i_request, mask=m_live, other=0) + o_token - start
    tl.store(position_ids + o_token, tl.where(m_live, position, 0), mask=m_token)


def write_positions(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    num_tokens = token_to_request.numel()
    if num_tokens > 2**31 - 1:
        raise ValueError(f"num_tokens = {num_tokens}, must be <= {2**31 - 1}")
    num_tiles = 0
    while num_tiles * TILE < num_tokens:
        num_tiles += 1
    if num_tiles > 0:
        inputs = (token_to_request, cu_seqlens_q, context_lens)
        _write[(num_tiles,)](*inputs, position_ids, num_tokens, TILE=TILE)


def column(table: Any) -> Any:
    return table[:, 0]


class Dies:
    """A judge that ends its own process where it is told to."""

    is_lost = False

    def __init__(self, tell: Tell) -> None: ...

    def judge(self, status: int) -> str:
        if status:
            os._exit(status)
        return "alive"

    def last(self, number: int) -> tuple[int, int]:
        """Return the number and the process; a judge is of no more use after the number 1."""
        self.is_lost = number == 1
        return number, os.getpid()
