"""Keys of each step of drafts in a window of its own."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.draft_lists import branches_of, num_steps, power
from cumae.properties.engines.sglang.engine import ENGINE
from cumae.properties.engines.sglang.unified_lists import WHOLE, prefix_lens

Tensor = torch.Tensor
WINDOWS = (1, 2, 3, 16, 127, 128, 129)


def _step_lists(case: Case) -> list[list[list[int]]]:
    """Return of each step the slots of each branch: the last keys of its context with its own drafts."""
    size, found, lens = num_steps(case), list[list[list[int]]](), prefix_lens(case)
    for step in range(1, size + 1):
        lists = list[list[int]]()
        for row, length in zip(slots_of(case), lens, strict=True):
            for branch in range(branches_of(case)):
                first = length + branch * size
                keys = row[:length] + row[first : first + step]
                lists.append(keys[-case.options.keys.window :])
        found.append(lists)
    return found


def _list_width(case: Case) -> int:
    return max(sum(map(len, lists)) for lists in _step_lists(case)) + case.layout.num_spare_columns


def _list_rows(_: Any, inputs: Inputs) -> list[Any]:
    width, found = _list_width(inputs.case), list[Any]()
    for lists in _step_lists(inputs.case):
        slots = [slot for keys in lists for slot in keys]
        found += slots + [UNTOUCHED] * (width - len(slots))
    return found


def _list_starts(_: Any, inputs: Inputs) -> list[Any]:
    """Return the starts of each step; the first entry is 0 from the beginning and is not written."""
    return [
        start
        for lists in _step_lists(inputs.case)
        for start in (UNTOUCHED, *accumulate(len(keys) for keys in lists))
    ]


def _num_lists(case: Case) -> int:
    return len(case.batch.requests) * branches_of(case)


@ENGINE.adapts(
    "sglang/kernels/ops/speculative/cache_locs.py",
    "generate_draft_decode_window_kv_indices",
    operation="kv_indices",
    dialect=having(
        SGLANG,
        "kv_indices",
        Output(
            "window_lists",
            "int32",
            "place_of_window_lists",
            "the last keys of each branch, its own drafts among them",
            follows="kv_indices",
            shape=lambda case: (num_steps(case), _list_width(case)),
            expect=_list_rows,
        ),
        Output(
            "window_starts",
            "int32",
            "place_of_window_starts",
            "the running sum of both",
            follows="kv_indptr",
            shape=lambda case: (num_steps(case), _num_lists(case) + 1),
            expect=_list_starts,
        ),
        branches=branches_of,
        contexts=lambda case: np.array(prefix_lens(case), dtype=np.int64),
        branch_positions=lambda case: np.repeat(prefix_lens(case), branches_of(case)).astype(np.int64),
    ),
    domain=WHOLE.having(phases=("decode",), verify_steps=True, max_query_len=16, window=WINDOWS),
)
def draft_step_windows(kernel: Any) -> Callable[..., None]:
    """The keys of each step of drafts in a window of its own, of one branch or of two.

    Keys of one branch come from a table of pages, those of two from one of tokens.
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
        window_lists: Tensor,
        window_starts: Tensor,
    ) -> None:
        count, steps = len(contexts), len(window_lists)
        rows, table, entry = req_pool_indices, req_to_token, 1
        if branches == 1:
            rows, table, entry = torch.arange(count, device=rows.device), page_table, page_size
        uppers = (power(count), power(steps), power(len(branch_positions)))
        strides = (table.stride(0), window_lists.shape[1], window_starts.shape[1])
        lists = (contexts, window_lists, window_starts, branch_positions)
        kernel[(steps, count, branches)](
            rows, table, *lists, *strides, *uppers, entry, sliding_window_size, ENTRY_PAGE_SIZE=entry
        )

    return launch
