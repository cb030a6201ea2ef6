"""Keys of a step in one list: prefixes with new slots, and windows in whole tiles."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, Case, Inputs
from cumae.properties.dialects import CUMAE, SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having, listed_slots, slots_of
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
WHOLE = STEPS.having(padding="none", missing_blocks=False, rowless_requests=False)
_EXTEND = "sglang/kernels/ops/attention/extend_attention.py"
_TILE = 128


def prefix_lens(case: Case) -> list[int]:
    """Return the cached tokens of each request."""
    return [request.context_len for request in case.batch.requests]


def _prefix_slots(case: Case) -> list[int]:
    rows = zip(slots_of(case), prefix_lens(case), strict=True)
    return [slot for row, length in rows for slot in row[:length]]


def _new_slots(case: Case) -> list[int]:
    rows = zip(slots_of(case), prefix_lens(case), strict=True)
    return [slot for row, length in rows for slot in row[length:]]


def _num_keys(case: Case) -> int:
    return sum(request.seq_len for request in case.batch.requests)


def _list(name: str, dtype: str, rule: str, size: Callable[[Case], int], expect: Any) -> Output:
    return Output(
        name,
        dtype,
        f"place_of_{name}",
        rule,
        follows="kv_indices",
        shape=lambda case: (size(case),),
        expect=lambda _, inputs: expect(inputs),
    )


@ENGINE.adapts(
    _EXTEND,
    "build_unified_kv_indices",
    operation="kv_indices",
    dialect=having(
        CUMAE,
        "kv_indices",
        _list("unified", "int64", "the slots of all keys", _num_keys, lambda i: listed_slots(i).kv_indices),
        _list(
            "unified_starts",
            "int32",
            "the running sum of the keys",
            lambda case: len(case.batch.requests) + 1,
            lambda i: listed_slots(i).kv_indptr,
        ),
        prefix_starts=int32(lambda case: [0, *accumulate(prefix_lens(case))]),
        prefix_slots=lambda case: np.array(_prefix_slots(case), dtype=np.int64),
        new_slots=lambda case: np.array(_new_slots(case), dtype=np.int64),
    ),
    domain=WHOLE.having(window=(0,)),
)
def unified_kv_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The keys of each request's prefix, then its new ones."""

    def launch(
        prefix_starts: Tensor,
        prefix_slots: Tensor,
        cu_seqlens_q: Tensor,
        query_lens: Tensor,
        new_slots: Tensor,
        num_requests: int,
    ) -> dict[str, Tensor]:
        step = (prefix_starts, prefix_slots, cu_seqlens_q[:-1], query_lens, new_slots, num_requests)
        starts, slots, _ = function(*step)
        return {"unified": slots, "unified_starts": starts.int()}

    return launch


def _padding(inputs: Inputs) -> list[int]:
    """Return the keys that each window list needs in front, to begin at a multiple of a tile."""
    window = inputs.case.options.keys.window
    return [max(length - window, 0) % _TILE if window else 0 for length in inputs["seq_lens"]]


def _aligned(inputs: Inputs) -> list[Any]:
    """Return the keys of each window behind copies of the first, and anything behind all of them."""
    found, answer = list[Any](), listed_slots(inputs)
    for b, more in enumerate(_padding(inputs)):
        keys = answer.kv_indices[answer.kv_indptr[b] : answer.kv_indptr[b + 1]]
        found += [*keys[:1] * more, *keys]
    return found + [ANY] * (_aligned_room(inputs.case) - len(found))


def _aligned_room(case: Case) -> int:
    return listed_slots(Inputs(case)).kv_indptr[-1] + len(case.batch.requests) * (_TILE - 1)


def _window_slots(case: Case) -> list[int]:
    found = listed_slots(Inputs(case))
    slots: list[Any] = found.kv_indices[: found.kv_indptr[-1]]
    return slots


def _aligned_starts(inputs: Inputs) -> list[int]:
    starts = listed_slots(inputs).kv_indptr
    more = [0, *accumulate(_padding(inputs))]
    return [start + before for start, before in zip(starts, more, strict=True)]


@ENGINE.adapts(
    _EXTEND,
    "align_window_kv_to_tiles",
    operation="kv_indices",
    dialect=having(
        CUMAE,
        "kv_indices",
        _list("aligned", "int32", "copies of the first key, then the window's", _aligned_room, _aligned),
        _list(
            "aligned_starts",
            "int32",
            "the running sum of both",
            lambda case: len(case.batch.requests) + 1,
            _aligned_starts,
        ),
        window_slots=int32(_window_slots),
        window_starts=int32(lambda case: listed_slots(Inputs(case)).kv_indptr),
        first_positions=int32(
            lambda case: [
                max(r.seq_len - case.options.keys.window, 0) if case.options.keys.window else 0
                for r in case.batch.requests
            ]
        ),
    ),
    domain=WHOLE.having(empty_requests=False),
)
def aligned_windows(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Windows that begin at a multiple of 128 positions; every request has a key."""

    def launch(
        window_starts: Tensor, window_slots: Tensor, first_positions: Tensor, num_requests: int, window: int
    ) -> dict[str, Tensor]:
        starts, slots = function(window_starts, window_slots, first_positions, num_requests, _TILE)
        return {"aligned": slots, "aligned_starts": starts.int()}

    return launch


_POOL = SimpleNamespace(req_to_token=None)


@ENGINE.adapts(
    "sglang/srt/model_executor/forward_batch_deepseek_mha_mixin.py",
    "ForwardBatchDeepSeekMHAMixin.fetch_mha_one_shot_kv_indices",
    operation="kv_indices",
    dialect=having(
        SGLANG,
        "kv_indices",
        _list(
            "one_shot",
            "int32",
            "the slots of all keys, new ones too",
            _num_keys,
            lambda i: [slot for row in slots_of(i.case) for slot in row],
        ),
        all_lens=lambda case: np.array([r.seq_len for r in case.batch.requests], dtype=np.int64),
    ),
    domain=WHOLE.having(window=(0,)),
    get_attn_backend=lambda: SimpleNamespace(kv_index_translator=None),
    get_req_to_token_pool=lambda: _POOL,
)
def one_shot_kv_indices(method: Any) -> Callable[..., dict[str, Tensor]]:
    """The keys of an extend that computes attention over prefixes and new keys at once."""

    def launch(req_to_token: Tensor, req_pool_indices: Tensor, all_lens: Tensor) -> dict[str, Tensor]:
        _POOL.req_to_token = req_to_token
        batch = SimpleNamespace(
            mha_one_shot_kv_indices=None,
            batch_size=len(all_lens),
            seq_lens=all_lens,
            seq_lens_cpu=all_lens.tolist(),
            req_pool_indices=req_pool_indices,
        )
        return {"one_shot": method(batch)}

    return launch
