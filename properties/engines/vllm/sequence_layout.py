"""The request of each token, of each logit and of each draft token."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.properties.engines.vllm.engine import ENGINE, STARTS, STEPS, UNPADDED, V2

Tensor = torch.Tensor


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "expand_idx_mapping",
    operation="sequence_layout",
    dialect=V2,
    domain=UNPADDED,
)
def expand_idx_mapping(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V2: the request of each logit; here every token has a logit."""

    def launch(idx_mapping: Tensor, starts: Tensor, num_tokens: int, max_query_len: int) -> dict[str, Tensor]:
        return {"req_id_per_token": function(idx_mapping, num_tokens, starts, max(max_query_len, 1))[0]}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/ops/metadata.py",
    "compute_token_to_req_indices",
    operation="sequence_layout",
    dialect=STARTS,
    domain=STEPS,
)
def compute_token_to_req_indices(function: Any) -> Callable[..., None]:
    """The request of each token, 0 on padding."""

    def launch(starts: Tensor, num_tokens: int, num_tokens_padded: int, req_id_per_token: Tensor) -> None:
        if num_tokens_padded:
            function(starts, req_id_per_token, num_tokens, num_tokens_padded)

    return launch


REPLACED = -7
"""No request's index."""


@ENGINE.adapts(
    "vllm/v1/sample/rejection_sampler.py",
    "expand_kernel",
    operation="sequence_layout",
    dialect=STARTS,
    domain=UNPADDED,
)
def expand_kernel(kernel: Any) -> Callable[..., None]:
    """A value of each request, repeated for its draft tokens; here, the request's index.

    The last request's is put in the place of a value that is to be replaced.
    """

    def launch(starts: Tensor, num_reqs: int, max_query_len: int, req_id_per_token: Tensor) -> None:
        values = torch.arange(num_reqs, dtype=torch.int32, device=starts.device)
        width = 1 << max(max_query_len - 1, 0).bit_length()
        ends = starts[1:].clone()  # vLLM's sums have no 0 in front
        values[-1:] = REPLACED
        replacing = (REPLACED, num_reqs - 1)
        kernel[(num_reqs,)](req_id_per_token, values, ends, *replacing, MAX_NUM_TOKENS=width)

    return launch


@ENGINE.adapts(
    "vllm/models/inkling/nvidia/ops/sconv.py",
    "sconv_seq_metadata",
    operation="sequence_layout",
    dialect=STARTS,
    domain=STEPS,
)
def sconv_seq_metadata(function: Any) -> Callable[..., None]:
    """The request of each token for short convolutions, 0 on padding."""

    def launch(
        starts: Tensor, num_reqs: int, num_tokens: int, num_tokens_padded: int, req_id_per_token: Tensor
    ) -> None:
        first_rows = torch.empty_like(req_id_per_token)
        if num_tokens_padded:
            function(starts, num_reqs, num_tokens, req_id_per_token, first_rows, num_tokens_padded)

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu_model_runner.py",
    "GPUModelRunner._get_cumsum_and_arange",
    operation="sequence_layout",
    dialect="cumae",
    domain=UNPADDED.having(min_tokens=1),
)
def cumsum_of_queries(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V1: the running sum of query lengths, on the host, behind the 0 that the caller writes."""

    def launch(query_lens: Tensor, num_tokens: int) -> dict[str, Tensor]:
        counts, positions = query_lens.cpu().numpy(), np.empty(num_tokens, dtype=np.int64)
        sums = method(SimpleNamespace(arange_np=np.arange(num_tokens)), counts, positions)
        return {"cu_seqlens_q": torch.tensor([0, *sums], dtype=torch.int32, device=query_lens.device)}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla.py",
    "AiterMLAHelper.qo_indptr_for_uniform_qlen",
    operation="sequence_layout",
    dialect=STARTS,
    domain=UNPADDED.having(phases=("decode",), uniform_decodes=True, empty_requests=False, min_tokens=1),
)
def uniform_qo_indptr(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Where the rows of each request begin if all have the same number."""

    def launch(num_reqs: int, max_query_len: int, seq_lens: Tensor) -> dict[str, Tensor]:
        return {"query_start_loc": function(num_reqs, max_query_len, seq_lens.device)}

    return launch
