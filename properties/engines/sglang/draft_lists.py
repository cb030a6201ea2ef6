"""Keys of each step of drafts, and the slots that drafts take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs, kv_indices
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.engine import ENGINE
from cumae.properties.engines.sglang.unified_lists import WHOLE, prefix_lens

Tensor = torch.Tensor


def branches_of(case: Case) -> int:
    """Return the branches of a step of drafts, whose slots stand one after the other behind the context."""
    each = case.batch.requests[0].query_len
    return 2 if each % 2 == 0 else 1


def num_steps(case: Case) -> int:
    """Return the steps of drafts, in each of which a branch has one more."""
    return case.batch.requests[0].query_len // branches_of(case)


def _of_steps(case: Case) -> list[tuple[list[int], list[int]]]:
    """Return of each step the slots of all branches, and where they start.

    A branch reads the last keys of the context, all without a window, then its own drafts up to the step.
    """
    lens, size, steps = prefix_lens(case), num_steps(case), list[tuple[list[int], list[int]]]()
    rows, window = slots_of(case), case.options.keys.window
    prefix = kv_indices(rows, range(len(rows)), lens, len(rows), 1, sum(lens), window)
    for step in range(size):
        slots, starts = list[Any](), [0]
        for b, row in enumerate(rows):
            keys = prefix.kv_indices[prefix.kv_indptr[b] : prefix.kv_indptr[b + 1]]
            for branch in range(branches_of(case)):
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


def power(count: int) -> int:
    """Return the smallest power of two that is no less."""
    return 1 << (count - 1).bit_length()


def _matrix(name: str, rule: str, width: Callable[[Case], int], expect: Callable[[Inputs], Any]) -> Output:
    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows="kv_indices",
        shape=lambda case: (num_steps(case), width(case)),
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
            lambda case: len(case.batch.requests) * branches_of(case) + 1,
            _step_starts,
        ),
        branches=branches_of,
        contexts=lambda case: np.array(prefix_lens(case), dtype=np.int64),
        branch_positions=lambda case: np.repeat(prefix_lens(case), branches_of(case)).astype(np.int64),
    ),
    domain=WHOLE.having(phases=("decode",), verify_steps=True, max_query_len=16),
)
def draft_step_kv_indices(kernel: Any) -> Callable[..., None]:
    """The keys of each step of drafts, of one branch or of two, all or in a window.

    Keys of one branch come from a table of pages, those of two from one of tokens. Both forms of the launch:
    one program for the context, and two of them.
    """

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        page_table: Tensor,
        page_size: int,
        contexts: Tensor,
        branch_positions: Tensor,
        branches: int,
        sliding_window_size: int,
        step_slots: Tensor,
        step_starts: Tensor,
    ) -> None:
        count, steps = len(contexts), len(step_slots)
        blocks = 1 + count % 2
        rows, table, entry = req_pool_indices, req_to_token, 1
        if branches == 1:
            rows, table, entry = torch.arange(count, device=rows.device), page_table, page_size
        uppers = (power(count), power(steps), power(len(branch_positions)))
        strides = (table.stride(0), step_slots.shape[1], step_starts.shape[1])
        lists = (contexts, step_slots, step_starts, branch_positions)
        sizes = {"NUM_STEPS": steps if blocks > 1 else 0, "ENTRY_PAGE_SIZE": entry}
        grid = (steps * blocks, count, branches)
        kernel[grid](rows, table, *lists, *strides, *uppers, entry, sliding_window_size, **sizes)

    return launch


def _given(case: Case) -> Any:
    """Return a window of slots for each request: its new ones in front, others behind."""
    rows, width = (
        slots_of(case),
        max(r.query_len for r in case.batch.requests) + case.layout.num_spare_columns,
    )
    new = [row[length:] for row, length in zip(rows, prefix_lens(case), strict=True)]
    return np.array([slots + [-3] * (width - len(slots)) for slots in new], dtype=np.int64)


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/cache_locs.py",
    "fill_front_out_cache_loc_func",
    operation="slot_mapping",
    dialect=SGLANG.extend(
        windows=_given,
        num_front=int32(lambda case: [request.query_len for request in case.batch.requests]),
    ),
    domain=WHOLE,
    _is_cpu=False,
)
def front_out_cache_loc(function: Any) -> Callable[..., None]:
    """The first slots of each request's window, one after the other."""

    def launch(windows: Tensor, num_front: Tensor, out_cache_loc: Tensor) -> None:
        function(num_front, windows.flatten(), out_cache_loc)

    return launch
