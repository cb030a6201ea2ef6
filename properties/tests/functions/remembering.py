"""Positions that depend on what was called before in the same process, and one that depends on chance."""

import os
from pathlib import Path

import torch

ANSWERS: dict[tuple[int, int], torch.Tensor] = {}
CALLS: list[int] = []
ONCE = "CUMAE_TEST_WRONG_ONCE"
"""The variable with the path of a file that exists once a call was wrong."""


def _positions(context_lens: torch.Tensor, cu_seqlens_q: torch.Tensor) -> torch.Tensor:
    query_lens = cu_seqlens_q.diff().long()
    first = (context_lens - cu_seqlens_q[:-1]).repeat_interleave(query_lens)
    return first + torch.arange(len(first), device=first.device)


def _fill(position_ids: torch.Tensor, positions: torch.Tensor) -> None:
    position_ids.zero_()
    position_ids[: len(positions)] = positions.to(position_ids.dtype)


def kept_by_size(context_lens: torch.Tensor, cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor) -> None:
    """Keep an answer in the module by the numbers of requests and tokens, not by the lengths."""
    key = len(context_lens), int(cu_seqlens_q[-1])
    if key not in ANSWERS:
        ANSWERS[key] = _positions(context_lens, cu_seqlens_q)
    _fill(position_ids, ANSWERS[key])


def wrong_from_the_fifth_call(
    context_lens: torch.Tensor, cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor
) -> None:
    """Count the calls in the module."""
    CALLS.append(len(CALLS))
    _fill(position_ids, _positions(context_lens, cu_seqlens_q) + (len(CALLS) >= 5))


def wrong_in_one_process(
    context_lens: torch.Tensor, cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor
) -> None:
    """Be wrong in the process that makes a file, and in no other."""
    file = Path(os.environ[ONCE])
    if not file.exists():
        file.write_text(str(os.getpid()))
    _fill(position_ids, _positions(context_lens, cu_seqlens_q) + (file.read_text() == str(os.getpid())))
