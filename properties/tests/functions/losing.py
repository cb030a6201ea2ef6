"""A GPU whose context is lost, played on the CPU: the process lives on, but is of no more use."""

import torch

from cumae.properties.search import child_search, examiner, findings, foresight, keeper
from cumae.properties.search.child import Tell
from cumae.properties.search.child_search import Searcher
from cumae.properties.tests.functions.wrong_on_purpose import right_positions

_LOST: list[bool] = []


def loses_the_context_on_three_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but reaches outside of its memory where there are three requests or more."""
    if context_lens.numel() >= 3 or _LOST:
        _LOST.append(True)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))


class Losing(Searcher):
    """A searcher that takes the context for lost when the function above says so."""

    def __init__(self, tell: Tell, device: str) -> None:
        for module in (child_search, examiner, findings, foresight, keeper):
            setattr(module, "device_lost", lambda device: bool(_LOST))  # noqa: B010, mypy knows no such name
        super().__init__(tell, device)
