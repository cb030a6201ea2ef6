"""The keys of each token of sparse attention."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Ints
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import ints
from cumae.properties.engines.arrays import int32_room
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, EXTENDS, STEPS

Tensor = torch.Tensor
_FUSED = "sglang/kernels/ops/attention/dsa/metadata.py"
_FEW: dict[str, Any] = {"max_requests": 64, "max_tokens": 1024, "max_context_len": 4096}
_VERIFIES = STEPS.having(phases=("decode",), verify_steps=True, **_FEW)


def _num_seen(case: Case) -> Any:
    """Return the keys that each token sees, its own included."""
    spans = [range(r.context_len + 1, r.seq_len + 1) for r in case.batch.requests]
    return np.array([seen for span in spans for seen in span], dtype=np.int32)


def _num_selected(inputs: Inputs) -> Ints:
    """Return the keys that each token selects."""
    case = inputs.case
    selected = np.minimum(_num_seen(case), case.options.selection.topk)
    return ints(selected.tolist(), "int32", case.layout.garbage)


_SEEN = SGLANG.extend(num_seen=_num_seen, num_selected=Input(_num_selected, ("topk",)))


@ENGINE.adapts(
    "sglang/kernels/ops/attention/pad.py", "seqlens_expand_triton", operation="flat_decodes", domain=EXTENDS
)
def seqlens_expand(function: Any) -> Callable[..., dict[str, Tensor]]:
    """By a program for each request."""

    def launch(
        extend_seq_lens: Tensor, cache_seqlens_int32: Tensor, num_token_non_padded: int
    ) -> dict[str, Tensor]:
        longest = int(extend_seq_lens.max())
        lens = (extend_seq_lens, cache_seqlens_int32, num_token_non_padded, longest)
        return {"seqlens_expanded": function(*lens)}

    return launch


def _tables(req_to_token: Tensor, req_pool_indices: Tensor, rows: int) -> tuple[Tensor, ...]:
    """Return the arguments of a fused function from the pool to the table of slots, which is scratch."""
    count = req_pool_indices.numel()
    table = req_to_token.new_empty(rows, req_to_token.shape[1])
    scratch = (int32_room(count, req_to_token), int32_room(count + 1, req_to_token))
    return (req_pool_indices, req_to_token, *scratch, table)


@ENGINE.adapts(_FUSED, "fused_dsa_decode_metadata", operation="flat_decodes", domain=DECODES.having(**_FEW))
def dsa_lens_of_decodes(function: Any) -> Callable[..., None]:
    """Selected keys of decodes of one token, and their running sum."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        batch_size: int,
        dsa_index_topk: int,
        dsa_cache_seqlens: Tensor,
        dsa_cu_seqlens_k: Tensor,
    ) -> None:
        tables = _tables(req_to_token, req_pool_indices, batch_size)
        lens = (dsa_cache_seqlens, dsa_cu_seqlens_k)
        function(seq_lens, *tables, *lens, None, batch_size, int(seq_lens.max()), dsa_index_topk, 1)

    return launch


@ENGINE.adapts(_FUSED, "fused_dsa_target_verify_metadata", operation="flat_decodes", domain=_VERIFIES)
def dsa_lens_of_verify(function: Any) -> Callable[..., None]:
    """Keys of each draft of a verify step."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        batch_size: int,
        draft_token_num: int,
        dsa_index_topk: int,
        seqlens_expanded: Tensor,
        dsa_cache_seqlens: Tensor,
        dsa_cu_seqlens_k: Tensor,
    ) -> None:
        tables = _tables(req_to_token, req_pool_indices, batch_size * draft_token_num)
        lens = (seqlens_expanded, dsa_cache_seqlens, dsa_cu_seqlens_k)
        longest = int(seq_lens.max()) + draft_token_num
        function(seq_lens, *tables, *lens, None, batch_size, longest, dsa_index_topk, 1, draft_token_num)

    return launch


@ENGINE.adapts(
    _FUSED, "fused_dsa_draft_extend_metadata", operation="flat_decodes", domain=EXTENDS.having(**_FEW)
)
def dsa_lens_of_draft_extend(function: Any) -> Callable[..., None]:
    """Keys of each token of an extend."""

    def launch(
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        num_token_non_padded: int,
        batch_size: int,
        dsa_index_topk: int,
        seqlens_expanded: Tensor,
        dsa_cache_seqlens: Tensor,
        dsa_cu_seqlens_k: Tensor,
    ) -> None:
        tables = _tables(req_to_token, req_pool_indices, num_token_non_padded)
        lens = (seqlens_expanded, dsa_cache_seqlens, dsa_cu_seqlens_k)
        counts = (batch_size, num_token_non_padded, int(seq_lens.max()), dsa_index_topk, 1)
        most = (int(extend_seq_lens.max()), num_token_non_padded)
        function(seq_lens, extend_seq_lens, *tables, *lens, None, *counts, *most)

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa/utils.py",
    "compute_dsa_seqlens",
    operation="flat_decodes",
    dialect=_SEEN,
    domain=EXTENDS,
)
def dsa_seqlens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Keys that each token selects, from the keys that it sees."""

    def launch(num_seen: Tensor, dsa_index_topk: int) -> dict[str, Tensor]:
        return {"dsa_cache_seqlens": function(num_seen, dsa_index_topk)}

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa/dsa_backend_mtp_precompute.py",
    "compute_cu_seqlens",
    operation="flat_decodes",
    dialect=_SEEN,
    domain=EXTENDS,
)
def dsa_cu_seqlens(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The running sum of the keys that tokens select."""

    def launch(num_selected: Tensor) -> dict[str, Tensor]:
        return {"dsa_cu_seqlens_k": function(num_selected)}

    return launch
