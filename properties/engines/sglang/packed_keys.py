"""Cached and new keys of a step, packed into one dense buffer for each of keys and values."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import CUMAE, Output
from cumae.properties.dialects.output import Piece
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.operations.table import PREFIX_INTERLEAVE

Tensor = torch.Tensor


def _width(case: Case) -> int:
    """Return the numbers of a key, and of a value: a row holds one of each."""
    return case.options.rows.kv_lora_rank


def _head_dim(case: Case) -> int:
    """Return the numbers of a head, 256 or 512."""
    return 512 if _width(case) == 512 and len(case.batch.requests) % 2 else 256


def _slots(case: Case) -> Any:
    """Return the slots of the cached keys of each request."""
    rows = zip(slots_of(case), case.batch.requests, strict=True)
    return np.array([slot for row, r in rows for slot in row[: r.context_len]], dtype=np.int64)


def _starts(case: Case) -> Any:
    lens = accumulate((request.context_len for request in case.batch.requests), initial=0)
    return np.array([*lens], dtype=np.int32)


def _most_keys(case: Case) -> int:
    """Return SGLang's bound of the keys of a request: the longest prefix and the longest query."""
    requests = case.batch.requests
    return max(r.context_len for r in requests) + max(r.query_len for r in requests)


def _packed(name: str, start: Callable[[Case], int]) -> Output:
    """Return a packed buffer of the numbers that begin at this column of each row."""
    return replace(
        PREFIX_INTERLEAVE.outputs[0],
        name=name,
        follows="keys",
        shape=lambda case: (case.capacity, _width(case)),
        strides=None,
        pieces={"cache": Piece("cache", start), "new": Piece("new_rows", start)},
    )


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dllm_kv_pack.py",
    "pack_prefix_current",
    operation="prefix_interleave",
    dialect=having(
        CUMAE,
        "prefix_interleave",
        _packed("keys", lambda case: 0),
        _packed("values", _width),
        Output(
            "packed_starts",
            "int32",
            "packed_start",
            "the running sum of the keys",
            shape=lambda case: (len(case.batch.requests) + 1,),
            expect=lambda _, inputs: inputs["cu_seqlens_k"],
        ),
        prefix_starts=_starts,
        prefix_slots=_slots,
        head_dim=_head_dim,
        most_keys=_most_keys,
    ),
    domain=STEPS.having(
        max_tokens=256,
        max_context_len=256,
        padding="none",
        missing_blocks=False,
        rowless_requests=False,
        strided=True,
        large_slots=True,
        row_format=("bf16", "fp16"),
        latent_dims=((256, 256), (512, 512), (768, 768)),
        key_scope=("all",),
        key_slack=(0, 1, 9),
    ),
)
def packed_prefix_and_new(function: Any) -> Callable[..., None]:
    """Cached keys, then new ones, of each request, and values in the same way."""

    def launch(
        new_rows: Tensor,
        cache: Tensor,
        cu_seqlens_q: Tensor,
        prefix_starts: Tensor,
        prefix_slots: Tensor,
        head_dim: int,
        most_keys: int,
        keys: Tensor,
        values: Tensor,
        packed_starts: Tensor,
    ) -> None:
        slots = cache.flatten(0, 1)
        halves = [half for rows in (new_rows, slots) for half in rows.tensor_split(2, dim=1)]
        heads = [half.view(len(half), -1, head_dim) for half in (*halves, keys, values)]
        step = (cu_seqlens_q, prefix_starts, prefix_slots)
        function(*heads[:4], *step, *heads[4:], packed_starts, most_keys)

    return launch
