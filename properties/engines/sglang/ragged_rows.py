"""Rows of verified drafts of any length, and ragged lists of the keys in rings."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.engines.sglang.unified_lists import WHOLE

Tensor = torch.Tensor
_VERIFY = "sglang/kernels/ops/speculative/dspark/dspark_verify_window.py"


def _owners(_: Any, inputs: Inputs) -> list[int]:
    """Return the request of each row, the number of requests on padding."""
    count = len(inputs.case.batch.requests)
    return [b if b >= 0 else count for b in inputs["token_to_request"]]


def _places(_: Any, inputs: Inputs) -> list[int]:
    """Return the place of each row within its request, 0 on padding."""
    case = inputs.case
    places = [i for request in case.batch.requests for i in range(request.query_len)]
    return places + [0] * case.layout.num_padding_tokens


def _row(name: str, rule: str, expect: Callable[[Any, Inputs], list[int]]) -> Output:
    rows = lambda case: (case.num_tokens_padded,)  # noqa: E731
    return Output(name, "int64", "token", rule, follows="token_to_request", shape=rows, expect=expect)


_ROWS = having(
    SGLANG,
    "sequence_layout",
    _row("owners", "the token's request, the number of requests on padding", _owners),
    _row("places", "its place within the request, 0 on padding", _places),
    num_rows=lambda case: case.num_tokens_padded,
    verify_lens=int32(lambda case: [request.query_len for request in case.batch.requests]),
)


def _indexed(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(verify_lens: Tensor, num_rows: int) -> dict[str, Tensor]:
        owners, places, _ = function(
            verify_lens=verify_lens, padded_total=num_rows, device=verify_lens.device
        )
        return {"owners": owners, "places": places}

    return launch


@ENGINE.adapts(_VERIFY, "compact_row_index", operation="sequence_layout", dialect=_ROWS, domain=STEPS)
def ragged_rows(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: the request of each row and its place there, in torch."""
    return _indexed(function)


@ENGINE.adapts(_VERIFY, "compact_row_index_triton", operation="sequence_layout", dialect=_ROWS, domain=STEPS)
def ragged_rows_by_triton(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DSpark: the same by a kernel that searches, for 1,024 requests at most."""
    return _indexed(function)


def _ring(case: Case) -> int:
    """Return the rows of a ring: the window and some more."""
    return case.options.keys.window + 3


def _in_ring(b: int, positions: range, case: Case) -> list[int]:
    return [SGLANG.table_rows(case)[b] * _ring(case) + p % _ring(case) for p in positions]


def _new(case: Case) -> list[tuple[int, int, int]]:
    """Return of each new token its request, its context and its position."""
    return [
        (b, request.context_len, p)
        for b, request in enumerate(case.batch.requests)
        for p in range(request.context_len, request.seq_len)
    ]


def _ring_lists(case: Case) -> list[list[int]]:
    """Return the places in the rings of the keys in each token's window."""
    window = case.options.keys.window
    return [_in_ring(b, range(max(p - window + 1, 0), p + 1), case) for b, _, p in _new(case)]


def _starts_of(lists: list[list[int]]) -> list[int]:
    return [0, *accumulate(map(len, lists))]


def _flat(name: str, rule: str, lists: Callable[[Case], list[list[int]]], more: int = 0) -> Output:
    """Return a list of all tokens' keys, or with ``more`` the places where they start."""

    def values(case: Case) -> list[int]:
        found = lists(case)
        return _starts_of(found) if more else [key for row in found for key in row]

    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows="window_slots",
        shape=lambda case: (len(values(case)),),
        expect=lambda _, inputs: values(inputs.case),
    )


_TOKENS = SGLANG.extend(
    states=int32(SGLANG.table_rows),
    state_of_tokens=int32(lambda case: [SGLANG.table_rows(case)[b] for b, _, _ in _new(case)]),
    ring_starts=int32(lambda case: _starts_of(_ring_lists(case))),
    context_of_tokens=int32(lambda case: [context for _, context, _ in _new(case)]),
    ring_size=_ring,
)
_FEW = WHOLE.having(window=(1, 2, 3, 16, 127, 128), max_tokens=256)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/unified_kv_kernels/paged_decode_indices.py",
    "write_v4_paged_decode_indices",
    operation="window_slots",
    dialect=having(
        _TOKENS,
        "window_slots",
        _flat("ring_keys", "the places in the ring of the keys in the window", _ring_lists),
    ),
    domain=_FEW,
)
def ring_keys_of_decodes(function: Any) -> Callable[..., None]:
    """DeepSeek V4: the keys of each token in the ring of its request, in three lists that are alike here."""

    def launch(
        states: Tensor,
        token_to_batch_idx: Tensor,
        positions: Tensor,
        ring_starts: Tensor,
        swa_window: int,
        ring_size: int,
        ring_keys: Tensor,
    ) -> None:
        lists = {"csa_indices": torch.empty_like(ring_keys), "hca_indices": torch.empty_like(ring_keys)}
        function(
            state_slot_per_seq=states,
            batch_id_per_token=token_to_batch_idx,
            positions=positions,
            swa_indptr=ring_starts,
            csa_indptr=ring_starts,
            hca_indptr=ring_starts,
            swa_indices=ring_keys,
            T=len(positions),
            win=swa_window,
            ring_stride=ring_size,
            **lists,
        )

    return launch


def _prefix_lists(case: Case) -> list[list[int]]:
    """Return the places in the rings of the cached keys in each token's window."""
    window = case.options.keys.window
    return [_in_ring(b, range(max(p - window + 1, 0), context), case) for b, context, p in _new(case)]


def _new_lists(case: Case) -> list[list[int]]:
    """Return the rows of the step's keys in each token's window."""
    window = case.options.keys.window
    return [
        [t - p + key for key in range(max(p - window + 1, context), p + 1)]
        for t, (_, context, p) in enumerate(_new(case))
    ]


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/unified_kv_kernels/runtime.py",
    "build_prefill_indices",
    operation="window_slots",
    dialect=having(
        _TOKENS.extend(
            rows_of_requests=lambda case: np.array(
                [t - p + context for t, (_, context, p) in enumerate(_new(case))], dtype=np.int32
            )
        ),
        "window_slots",
        _flat("cached_keys", "the places in the ring of the cached keys in the window", _prefix_lists),
        _flat("cached_starts", "the running sum of these", _prefix_lists, 1),
        _flat("new_keys", "the rows of the step's keys in the window", _new_lists),
        _flat("new_starts", "the running sum of these", _new_lists, 1),
    ),
    domain=_FEW,
)
def ring_keys_of_prefills(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4: the cached keys in rings and the new ones in rows, without compressed states."""

    def launch(
        state_of_tokens: Tensor,
        positions: Tensor,
        context_of_tokens: Tensor,
        rows_of_requests: Tensor,
        swa_window: int,
        ring_size: int,
    ) -> dict[str, Tensor]:
        cached, cached_starts, new, new_starts = function(
            compress_ratio=0,
            state_slot=state_of_tokens,
            positions=positions,
            chunk_start=context_of_tokens,
            cu_q=rows_of_requests,
            win=swa_window,
            ring_stride=ring_size,
            swa_pages=0,
            c128_page_indices=None,
            c4_sparse_page_indices=None,
        )
        return {
            "cached_keys": cached[: int(cached_starts[-1])],
            "cached_starts": cached_starts,
            "new_keys": new[: int(new_starts[-1])],
            "new_starts": new_starts,
        }

    return launch
