"""Functions that end their process, or never return, on certain cases."""

import os
import resource
import signal
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from cumae import Operation, Output, conforms_to
from cumae.properties.tests.functions.wrong_on_purpose import right_positions


def crashes_on_three_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but kills its process where there are three requests or more."""
    if context_lens.numel() >= 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))


def crashes_late(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """The same, but it takes its time."""
    if context_lens.numel() >= 3:
        time.sleep(0.8)
    crashes_on_three_requests(token_to_request, cu_seqlens_q, context_lens, position_ids)


def never_returns(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but hangs on two requests or more."""
    while context_lens.numel() >= 2:
        time.sleep(0.1)
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))


def fills_the_disk(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but its process can write no file any more."""
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def killed_on_three_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but where there are three requests or more its process is gone at once, as without memory."""
    if context_lens.numel() >= 3:
        os.kill(os.getpid(), signal.SIGKILL)
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))


def wrong_and_aborts_on_few_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """One too many everywhere; aborts its process where there is one request or none."""
    if context_lens.numel() <= 1:
        os.abort()
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens) + 1)


def closes_what_it_does_not_own(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but closes every file descriptor of its process where there are two requests."""
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
    if context_lens.numel() == 2:
        os.closerange(3, 1000)


def leaves(position_ids: torch.Tensor) -> None:
    """Ends its process in order."""
    os._exit(7)


class Counts(NamedTuple):
    counts: list[int]


def takes_long_on_two_requests(query_lens: Sequence[int]) -> Counts:
    """A definition that does not return where there are two requests or more."""
    if len(query_lens) > 1:
        time.sleep(3_600)
    return Counts(list(query_lens))


@conforms_to(Operation("counts", takes_long_on_two_requests, (Output("counts", "int32", "request"),)))
def counts_requests(query_lens: torch.Tensor, counts: torch.Tensor) -> None:
    """Right, but its definition takes long."""
    counts.copy_(query_lens)
