"""Keys of a step in one list: prefixes with new slots, windows in whole tiles, each step of drafts."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs, kv_indices
from cumae.properties.dialects import CUMAE, SGLANG, Output
from cumae.properties.engines.pages import having, listed_slots, slots_of
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_WHOLE = STEPS.having(padding="none", missing_blocks=False, rowless_requests=False)
_EXTEND = "sglang/kernels/ops/attention/extend_attention.py"
_TILE = 128


def _int32(values: Callable[[Case], list[int]]) -> Callable[[Case], Any]:
    return lambda case: np.array(values(case), dtype=np.int32)


def _prefix_lens(case: Case) -> list[int]:
    return [request.context_len for request in case.batch.requests]


def _prefix_slots(case: Case) -> list[int]:
    rows = zip(slots_of(case), _prefix_lens(case), strict=True)
    return [slot for row, length in rows for slot in row[:length]]


def _new_slots(case: Case) -> list[int]:
    rows = zip(slots_of(case), _prefix_lens(case), strict=True)
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
        prefix_starts=_int32(lambda case: [0, *accumulate(_prefix_lens(case))]),
        prefix_slots=lambda case: np.array(_prefix_slots(case), dtype=np.int64),
        new_slots=lambda case: np.array(_new_slots(case), dtype=np.int64),
    ),
    domain=_WHOLE.having(window=(0,)),
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
    return found.kv_indices[: found.kv_indptr[-1]]


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
        window_slots=_int32(_window_slots),
        window_starts=_int32(lambda case: listed_slots(Inputs(case)).kv_indptr),
        first_positions=_int32(
            lambda case: [
                max(r.seq_len - case.options.keys.window, 0) if case.options.keys.window else 0
                for r in case.batch.requests
            ]
        ),
    ),
    domain=_WHOLE.having(empty_requests=False),
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
    domain=_WHOLE.having(window=(0,)),
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


def _branches(case: Case) -> int:
    """Return the branches of a step of drafts, whose slots stand one after the other behind the context."""
    each = case.batch.requests[0].query_len
    return 2 if each % 2 == 0 else 1


def _num_steps(case: Case) -> int:
    return case.batch.requests[0].query_len // _branches(case)


def _of_steps(case: Case) -> list[tuple[list[int], list[int]]]:
    """Return of each step the slots of all branches, and where they start.

    A branch reads the last keys of the context, all without a window, then its own drafts up to the step.
    """
    lens, size, steps = _prefix_lens(case), _num_steps(case), list[tuple[list[int], list[int]]]()
    rows, window = slots_of(case), case.options.keys.window
    prefix = kv_indices(rows, range(len(rows)), lens, len(rows), 1, sum(lens), window)
    for step in range(size):
        slots, starts = list[int](), [0]
        for b, row in enumerate(rows):
            keys = prefix.kv_indices[prefix.kv_indptr[b] : prefix.kv_indptr[b + 1]]
            for branch in range(_branches(case)):
                first = lens[b] + branch * size
                slots += [*keys, *row[first : first + step + 1]]
                starts.append(len(slots))
        steps.append((slots, starts))
    return steps


def _step_width(case: Case) -> int:
    return max(len(slots) for slots, _ in _of_steps(case)) + case.layout.num_spare_columns


def _step_slots(inputs: Inputs) -> list[Any]:
    width, found = _step_width(inputs.case), list[Any]()
    for slots, _ in _of_steps(inputs.case):
        found += slots + [UNTOUCHED] * (width - len(slots))
    return found


def _step_starts(inputs: Inputs) -> list[Any]:
    """Return the starts of each step; the first entry is 0 from the beginning and is not written."""
    return [entry for _, starts in _of_steps(inputs.case) for entry in (UNTOUCHED, *starts[1:])]


def _power(count: int) -> int:
    """Return the smallest power of two that is no less."""
    return 1 << (count - 1).bit_length()


def _matrix(name: str, rule: str, width: Callable[[Case], int], expect: Callable[[Inputs], Any]) -> Output:
    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows="kv_indices",
        shape=lambda case: (_num_steps(case), width(case)),
        expect=lambda _, inputs: expect(inputs),
    )


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/cache_locs.py",
    "generate_draft_decode_kv_indices",
    operation="kv_indices",
    dialect=having(
        SGLANG,
        "kv_indices",
        _matrix("step_slots", "the keys of each branch, then its drafts", _step_width, _step_slots),
        _matrix(
            "step_starts",
            "the running sum of both",
            lambda case: len(case.batch.requests) * _branches(case) + 1,
            _step_starts,
        ),
        branches=_branches,
        contexts=lambda case: np.array(_prefix_lens(case), dtype=np.int64),
        branch_positions=lambda case: np.repeat(_prefix_lens(case), _branches(case)).astype(np.int64),
    ),
    domain=_WHOLE.having(phases=("decode",), verify_steps=True, max_query_len=16),
)
def draft_step_kv_indices(kernel: Any) -> Callable[..., None]:
    """The keys of each step of drafts, of one branch or of two, all or in a window; pages of one token.

    Both forms of the launch: one program for the context, and two of them.
    """

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        contexts: Tensor,
        branch_positions: Tensor,
        branches: int,
        sliding_window_size: int,
        step_slots: Tensor,
        step_starts: Tensor,
    ) -> None:
        count, steps = len(contexts), len(step_slots)
        blocks = 1 + count % 2
        uppers = (_power(count), _power(steps), _power(len(branch_positions)))
        strides = (req_to_token.stride(0), step_slots.shape[1], step_starts.shape[1])
        lists = (step_slots, step_starts, branch_positions)
        sizes = {"NUM_STEPS": steps if blocks > 1 else 0}
        kernel[(steps * blocks, count, branches)](
            req_pool_indices, req_to_token, contexts, *lists, *strides, *uppers, 1, sliding_window_size, **sizes
        )

    return launch


def _given(case: Case) -> Any:
    """Return a window of slots for each request: its new ones in front, others behind."""
    rows, width = slots_of(case), max(r.query_len for r in case.batch.requests) + case.layout.num_spare_columns
    new = [row[length:] for row, length in zip(rows, _prefix_lens(case), strict=True)]
    return np.array([slots + [-3] * (width - len(slots)) for slots in new], dtype=np.int64)


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/cache_locs.py",
    "fill_front_out_cache_loc_func",
    operation="slot_mapping",
    dialect=SGLANG.extend(
        windows=_given,
        num_front=_int32(lambda case: [request.query_len for request in case.batch.requests]),
    ),
    domain=_WHOLE,
    _is_cpu=False,
)
def front_out_cache_loc(function: Any) -> Callable[..., None]:
    """The first slots of each request's window, one after the other."""

    def launch(windows: Tensor, num_front: Tensor, out_cache_loc: Tensor) -> None:
        function(num_front, windows.flatten(), out_cache_loc)

    return launch
