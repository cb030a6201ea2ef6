"""The fused lengths of sparse attention over pools of keys, whose last one may be open."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import SGLANG, Dialect, Output
from cumae.properties.dialects.sglang.step import cache_seqlens
from cumae.properties.engines.arrays import int32_room
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, STEPS

Tensor = torch.Tensor
Lens = Callable[[Case], list[int]]
FILES = "sglang/kernels/ops/attention/dsa/kpool_metadata"
FEW: dict[str, Any] = {"block_sizes": (64,), "max_requests": 64, "max_tokens": 256, "max_context_len": 4096}
"""SGLang fuses metadata of pools only with pages of 64 tokens."""


def _pool(case: Case) -> int:
    """Return the keys of a pool, a divisor of the page size."""
    return (2, 4, 16, 64)[len(case.batch.requests) % 4]


def lens_in_graph(case: Case) -> list[int]:
    """Return the lengths of a draft extend; padded requests keep the fill value of the graph, 1."""
    return [*(r.seq_len for r in case.batch.requests), *[1] * case.layout.num_padding_requests]


def _num_new(case: Case) -> int:
    return case.batch.requests[0].query_len


def each_row(values: Sequence[Any], case: Case) -> list[Any]:
    """Return the value of each request once for each of its tokens."""
    return [value for value in values for _ in range(_num_new(case))]


def _seen(lens: Lens, case: Case) -> list[int]:
    """Return the keys that each row sees; 0 for rows in front of the first key, which only padding has."""
    size = _num_new(case)
    return [max(length - size + i + 1, 0) for length in lens(case) for i in range(size)]


def _selected(lens: Lens, case: Case) -> list[int]:
    """Return the keys that each row selects: whole pools up to a limit, then those of the open pool."""
    most, pool = case.options.selection.topk * _pool(case), _pool(case)
    return [min(seen - seen % pool, most) + seen % pool for seen in _seen(lens, case)]


def of_rows(name: str, rule: str, values: Callable[[Case], list[Any]], follows: str) -> Output:
    """Return an output of int32 numbers, as many as a case has."""
    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows=follows,
        shape=lambda case: (len(values(case)),),
        expect=lambda _, inputs: values(inputs.case),
    )


def _lens_outputs(lens: Lens) -> tuple[Output, ...]:
    return (
        of_rows("rows_seen", "the keys that the token sees", lambda case: _seen(lens, case), "key_lens"),
        of_rows(
            "rows_selected",
            "its whole pools, at most topk of them, and the keys of its open pool",
            lambda case: _selected(lens, case),
            "selected_lens",
        ),
        of_rows(
            "selected_starts",
            "the running sum of these",
            lambda case: [0, *accumulate(_selected(lens, case))],
            "selected_indptr",
        ),
    )


def pooled(operation: str, outputs: Callable[[Lens], tuple[Output, ...]], lens: Lens) -> Dialect:
    """Return the dialect of outputs for requests of these lengths after the step."""
    return having(
        SGLANG,
        operation,
        *outputs(lens),
        pool=_pool,
        num_new=_num_new,
        lens_in_graph=lambda case: np.array(lens_in_graph(case), dtype=np.int64),
    )


VERIFIES = STEPS.having(phases=("decode",), verify_steps=True, **FEW)
DRAFTS = STEPS.having(phases=("decode",), uniform_decodes=True, empty_requests=False, **FEW)


def draft_extend(function: Any, rows: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *sizes: int) -> None:
    """Run a draft extend of ``sizes``: columns, selected keys, new tokens of each request, keys of a pool."""
    width, most, num_new, pool = sizes
    lens, owners, req_to_token = rows
    count, tokens = len(lens), len(lens) * num_new
    new = torch.full((count,), num_new, dtype=torch.int32, device=lens.device)
    counts = (count, tokens, width, most, 64, num_new, tokens)
    function(lens, new, owners, req_to_token, *outputs, *counts, static_extend_len=True, index_kpool=pool)


def _lens_scratch(lens: Tensor, rows: int, req_to_token: Tensor) -> tuple[Tensor, ...]:
    """Return tensors for what lengths do not need: keys of requests and both tables."""
    count, width = len(lens), req_to_token.shape[1]
    tables = (req_to_token.new_empty(rows, width), req_to_token.new_empty(rows, -(-width // 64)))
    return (int32_room(count, lens), int32_room(count + 1, lens), *tables)


@ENGINE.adapts(
    f"{FILES}/decode.py",
    "fused_dsa_decode_metadata_kpool",
    operation="flat_decodes",
    dialect=pooled("flat_decodes", lambda lens: _lens_outputs(lens)[1:], cache_seqlens),
    domain=DECODES.having(**FEW),
)
def pooled_lens_of_decodes(function: Any) -> Callable[..., None]:
    """Selected keys of decodes of one token, and their running sum."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        dsa_index_topk: int,
        pool: int,
        rows_selected: Tensor,
        selected_starts: Tensor,
    ) -> None:
        count, width = len(seq_lens), req_to_token.shape[1]
        *keys, slots, pages = _lens_scratch(seq_lens, count, req_to_token)
        outputs = (*keys, slots, rows_selected, selected_starts, pages)
        rows = (seq_lens, req_pool_indices, req_to_token)
        function(*rows, *outputs, count, width, dsa_index_topk * pool, 64, pool)

    return launch


@ENGINE.adapts(
    f"{FILES}/verify.py",
    "fused_dsa_target_verify_metadata_kpool",
    operation="flat_decodes",
    dialect=pooled(
        "flat_decodes",
        lambda lens: (
            *_lens_outputs(lens),
            of_rows("keys_of_rows", "the keys after the step", lambda c: each_row(lens(c), c), "key_lens"),
        ),
        cache_seqlens,
    ),
    domain=VERIFIES,
)
def pooled_lens_of_verify(function: Any) -> Callable[..., None]:
    """Keys of each draft of a verify step, and the rectangle of the keys after it."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        dsa_index_topk: int,
        pool: int,
        num_new: int,
        rows_seen: Tensor,
        rows_selected: Tensor,
        selected_starts: Tensor,
        keys_of_rows: Tensor,
    ) -> None:
        count, width = len(seq_lens), req_to_token.shape[1]
        *keys, slots, pages = _lens_scratch(seq_lens, count * num_new, req_to_token)
        outputs = (*keys, slots, rows_seen, rows_selected, selected_starts, pages)
        rows, limits = (seq_lens, req_pool_indices, req_to_token), (dsa_index_topk * pool, 64, num_new)
        function(*rows, *outputs, count, width, *limits, keys_of_rows.view(count, num_new), pool)

    return launch


@ENGINE.adapts(
    f"{FILES}/draft_extend.py",
    "fused_dsa_draft_extend_metadata_kpool",
    operation="flat_decodes",
    dialect=pooled("flat_decodes", _lens_outputs, lens_in_graph),
    domain=DRAFTS,
)
def pooled_lens_of_draft_extend(function: Any) -> Callable[..., None]:
    """Keys of each token of a draft extend, whose requests all have as many new tokens."""

    def launch(
        lens_in_graph: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        dsa_index_topk: int,
        pool: int,
        num_new: int,
        rows_seen: Tensor,
        rows_selected: Tensor,
        selected_starts: Tensor,
    ) -> None:
        *keys, slots, pages = _lens_scratch(lens_in_graph, len(rows_seen), req_to_token)
        rows = (lens_in_graph, req_pool_indices, req_to_token)
        outputs = (*keys, slots, rows_seen, rows_selected, selected_starts, pages)
        draft_extend(function, rows, outputs, slots.shape[1], dsa_index_topk * pool, num_new, pool)

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa/utils.py",
    "compute_dsa_seqlens",
    operation="flat_decodes",
    dialect=having(
        SGLANG,
        "flat_decodes",
        _lens_outputs(cache_seqlens)[1],
        pool=_pool,
        seen=lambda case: np.array(_seen(cache_seqlens, case), dtype=np.int32),
    ),
    domain=VERIFIES,
)
def pooled_lens_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Selected keys of each row, from the keys that it sees."""

    def launch(seen: Tensor, dsa_index_topk: int, pool: int) -> dict[str, Tensor]:
        return {"rows_selected": function(seen, dsa_index_topk * pool, pool)}

    return launch
