"""First rows, running sums and lengths of a step's requests."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.dialects import SGLANG
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, EXTENDS, STEPS

Tensor = torch.Tensor


@ENGINE.adapts(
    "sglang/kernels/ops/attention/position.py",
    "compute_position_triton",
    operation="sequence_layout",
    domain=EXTENDS,
)
def start_locs(function: Any) -> Callable[..., dict[str, Tensor]]:
    """First rows of an extend's requests."""

    def launch(
        extend_prefix_lens: Tensor, extend_seq_lens: Tensor, extend_num_tokens: int
    ) -> dict[str, Tensor]:
        _, starts = function(extend_prefix_lens, extend_seq_lens, extend_num_tokens)
        return {"extend_start_loc": starts}

    return launch


def _lens_like(lens: Tensor) -> Callable[..., Tensor]:
    """Return a function that makes int32 tensors on the device of a tensor."""
    return lambda *shape: torch.empty(shape, dtype=torch.int32, device=lens.device)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "normal_decode_set_metadata",
    operation="sequence_layout",
    domain=DECODES,
)
def normal_decode_metadata(function: Any) -> Callable[..., None]:
    """Key lengths of decodes and their running sum, without the page table."""

    def launch(
        seq_lens: Tensor, req_to_token: Tensor, req_pool_indices: Tensor, cu_seqlens_k: Tensor
    ) -> None:
        empty, count = _lens_like(seq_lens), len(seq_lens)
        pages = (empty(count, 1), req_to_token, req_pool_indices, 1)
        function(empty(count), cu_seqlens_k, *pages, seq_lens, 0, 1, skip_page_table=True)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/metadata.py",
    "fused_dsa_decode_metadata",
    operation="sequence_layout",
    domain=DECODES,
)
def fused_dsa_decode(function: Any) -> Callable[..., None]:
    """Key lengths of decodes and their running sum, from the fused metadata of sparse attention."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        batch_size: int,
        cu_seqlens_k: Tensor,
    ) -> None:
        empty = _lens_like(seq_lens)
        longest = int(seq_lens.max())
        function(
            seq_lens,
            req_pool_indices,
            req_to_token,
            empty(batch_size),
            cu_seqlens_k,
            empty(batch_size, req_to_token.shape[1]),
            empty(batch_size),
            empty(batch_size + 1),
            None,
            batch_size,
            longest,
            2048,
            1,
        )

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "draft_extend_set_metadata",
    operation="sequence_layout",
    domain=EXTENDS,
)
def draft_extend_metadata(function: Any) -> Callable[..., None]:
    """Running sums of the new tokens and of the keys of an extend, from the fused metadata of drafts."""

    def launch(
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
    ) -> None:
        empty = _lens_like(seq_lens)
        count, width = len(seq_lens), req_to_token.shape[1]
        outputs = (empty(count), cu_seqlens_k, cu_seqlens_q, empty(count, width))
        function(*outputs, req_to_token, req_pool_indices, seq_lens, extend_seq_lens, 1)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/ragged_verify_kernels.py",
    "build_qo_indptr_triton",
    operation="sequence_layout",
    domain=EXTENDS,
)
def build_qo_indptr(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sum and first rows of verified tokens, by Triton."""
    return _starts_of(function)


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/ragged_verify_kernels.py",
    "build_qo_indptr",
    operation="sequence_layout",
    domain=EXTENDS,
)
def build_qo_indptr_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Running sum and first rows of verified tokens, in torch."""
    return _starts_of(function)


def _starts_of(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(extend_seq_lens: Tensor) -> dict[str, Tensor]:
        found = function(verify_lens=extend_seq_lens)
        return {"qo_indptr": found.qo_indptr, "extend_start_loc": found.extend_start_loc}

    return launch


@ENGINE.adapts(
    "sglang/srt/models/inkling_common/kernels/sconv.py",
    "_seq_idx_from_cu_seqlens",
    operation="sequence_layout",
    dialect=SGLANG.extend(starts_of_tokens="cu_seqlens_q"),
    domain=STEPS.having(padding="none"),
)
def sconv_seq_idx(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The request of each token, from the running sum of the new tokens."""

    def launch(starts_of_tokens: Tensor, extend_num_tokens: int) -> dict[str, Tensor]:
        return {"token_to_batch_idx": function(starts_of_tokens, extend_num_tokens)}

    return launch
