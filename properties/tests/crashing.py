"""Functions that end their process, or never return, on certain cases."""

import os
import resource
import signal
import time

import torch

from cumae.properties.search import isolation
from cumae.properties.tests.wrong_on_purpose import _positions

# Where this is imported nothing is compiled: what hangs is waited for only so long.
isolation.WARM_SECONDS = min(isolation.WARM_SECONDS, 2.0)


def crashes_on_three_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but kills its process where there are three requests or more."""
    if context_lens.numel() >= 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    position_ids.copy_(_positions(token_to_request, cu_seqlens_q, context_lens))


def never_returns(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but hangs on two requests or more."""
    while context_lens.numel() >= 2:
        time.sleep(0.1)
    position_ids.copy_(_positions(token_to_request, cu_seqlens_q, context_lens))


def fills_the_disk(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but its process can write no file any more."""
    position_ids.copy_(_positions(token_to_request, cu_seqlens_q, context_lens))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def leaves(position_ids: torch.Tensor) -> None:
    """Ends its process in order."""
    os._exit(7)
