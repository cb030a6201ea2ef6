"""The request of each token, found by binary search in the starts of requests."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.cases.domain import Domain
from cumae.properties.engines.flashinfer.engine import ENGINE

Tensor = torch.Tensor
_SEQUENCE = "flashinfer/experimental/b12x/sequence"
_STEPS = Domain(min_requests=1, min_tokens=1, captured=False)


def _found(kernel: Any) -> Callable[..., None]:
    def launch(append_indptr: Tensor, nnz: int, batch_indices: Tensor) -> None:
        num_requests = torch.full_like(append_indptr[:1], len(append_indptr) - 1)
        kernel[(nnz,)](append_indptr, num_requests, append_indptr[-1:], batch_indices, nnz)

    return launch


@ENGINE.adapts(
    f"{_SEQUENCE}/ple/_kernels.py", "_request_ids_kernel", operation="sequence_layout", domain=_STEPS
)
def request_ids_of_embeddings(kernel: Any) -> Callable[..., None]:
    """Requests of tokens that look up embeddings of a layer; none on padding."""
    return _found(kernel)


@ENGINE.adapts(
    f"{_SEQUENCE}/ple_hash/_kernels.py", "_request_ids_kernel", operation="sequence_layout", domain=_STEPS
)
def request_ids_of_hashes(kernel: Any) -> Callable[..., None]:
    """Requests of tokens that are hashed with those before them; none on padding."""
    return _found(kernel)
