"""Lists of selected slots as attention kernels want them: ragged, without -1, and never empty."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs, TopkToSlots, topk_to_slots
from cumae.properties.dialects import VLLM, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, SELECTED

Tensor = torch.Tensor
WHOLE = SELECTED.having(select_beyond=(False,), missing_blocks=False)


def _topk(case: Case) -> int:
    return case.options.selection.topk


def _rows(answer: TopkToSlots, case: Case) -> list[list[int]]:
    """Return the slots of each token's selected positions, those that there are."""
    width, slots = _topk(case), answer.selected_slots
    rows = [slots[t * width : (t + 1) * width] for t in range(case.num_tokens_padded)]
    return [[slot for slot in row if slot >= 0] for row in rows]


def _slots(inputs: Inputs) -> list[list[int]]:
    answer: TopkToSlots = inputs.call(topk_to_slots)
    return _rows(answer, inputs.case)


def _table(inputs: Inputs, rows: list[list[int]]) -> Ints:
    width = _topk(inputs.case)
    padded = [row + [-1] * (width - len(row)) for row in rows]
    return ints(padded, "int32", inputs.case.layout.garbage, width=width)


def _positions_in_front(inputs: Inputs) -> Ints:
    """Return the selected positions of each token, then -1; stale ones on padding."""
    case, live = inputs.case, inputs["selected_positions"][: inputs.case.batch.num_tokens]
    stale = [[0] * _topk(case)] * case.layout.num_padding_tokens
    return _table(inputs, [[p for p in row if p >= 0] for row in live] + stale)


def _counts(inputs: Inputs) -> Ints:
    return ints([len(row) for row in _slots(inputs)], "int32", inputs.case.layout.garbage)


LISTS = VLLM.extend(
    positions_in_front=Input(_positions_in_front, ("topk",)),
    slots_in_front=Input(lambda inputs: _table(inputs, _slots(inputs)), ("topk",)),
    valid_of_rows=Input(_counts, ("topk",)),
    is_live=lambda case: np.arange(case.num_tokens_padded) < case.batch.num_tokens,
)


def _output(name: str, axis: str, rule: str, size: Callable[[Case], tuple[int, ...]], of: Any) -> Output:
    """Return an output of the rows of slots; ``of`` gets these and the case."""
    return Output(
        name,
        "int32",
        axis,
        rule,
        follows="selected_slots",
        shape=size,
        expect=lambda answer, inputs: of(_rows(answer, inputs.case), inputs.case),
    )


def _tokens(case: Case) -> tuple[int, ...]:
    return (case.num_tokens_padded,)


def _behind(rows: list[list[int]], case: Case) -> list[Any]:
    """Return the slots of all rows, and anything up to the end of the list."""
    flat: list[Any] = [slot for row in rows for slot in row]
    return flat + [ANY] * (case.num_tokens_padded * _topk(case) - len(flat))


_RAGGED = having(
    LISTS,
    "topk_to_slots",
    _output(
        "ragged_slots",
        "ragged_slot",
        "the slots of all tokens' selected positions, in order",
        lambda case: (case.num_tokens_padded * _topk(case),),
        _behind,
    ),
    _output(
        "ragged_starts",
        "ragged_start",
        "the running sum of the slots",
        lambda case: (case.num_tokens_padded + 1,),
        lambda rows, case: [0, *accumulate(map(len, rows))],
    ),
    _output(
        "ragged_lens",
        "ragged_row",
        "the slots of the token, none on padding",
        _tokens,
        lambda rows, case: [len(row) for row in rows],
    ),
)


def _packed(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(
        positions_in_front: Tensor,
        token_to_req_indices: Tensor,
        block_table: Tensor,
        BLOCK_SIZE: int,
        is_live: Tensor,
    ) -> dict[str, Tensor]:
        step = (positions_in_front, token_to_req_indices, block_table, BLOCK_SIZE, is_live)
        slots, starts, lens = function(*step)
        return {"ragged_slots": slots, "ragged_starts": starts, "ragged_lens": lens}

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v4/amd/rocm.py",
    "compute_global_topk_ragged_indices_and_indptr",
    operation="topk_to_slots",
    dialect=_RAGGED,
    domain=WHOLE,
)
def ragged_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4 on AMD: selected slots of all tokens in one list, where each row has them in front."""
    return _packed(function)


@ENGINE.adapts(
    "vllm/models/deepseek_v41/amd/rocm.py",
    "_compute_global_topk_ragged_indices_and_indptr_old",
    operation="topk_to_slots",
    dialect=_RAGGED,
    domain=WHOLE,
)
def ragged_topk_of_large_steps(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4.1 on AMD: the same, for steps of more than 16 rows."""
    return _packed(function)


@ENGINE.adapts(
    "vllm/models/deepseek_v41/amd/ops/topk_pack.py",
    "launch",
    operation="topk_to_slots",
    dialect=_RAGGED,
    domain=WHOLE.having(max_tokens=16, max_requests=16),
)
def ragged_topk_of_small_steps(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4.1 on AMD: one program packs up to 16 rows (``MAX_ROWS``)."""
    return _packed(function)


def _filled(inputs: Inputs) -> Ints:
    """Return the starts of a plan: a row has the slots that it could have, or the first of all columns."""
    width = _topk(inputs.case)
    return ints([0, *accumulate(_planned(len(row), width) for row in _slots(inputs))], "int32", "zero")


def _planned(count: int, width: int) -> int:
    """Return the entries that a plan keeps for a row: more than it fills, and one for an empty row."""
    return min(max(count, 1) + count % 3, width)


def _replaced(rows: list[list[int]], case: Case) -> list[int]:
    """Return the slots of each row; entries without one hold its first slot, or 0."""
    found = list[int]()
    for row in rows:
        size = _planned(len(row), _topk(case))
        found += row + (row[:1] or [0]) * (size - len(row))
    return found


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py",
    "_pack_topk_indices",
    operation="topk_to_slots",
    dialect=having(
        LISTS.extend(planned_starts=Input(_filled, ("topk",))),
        "topk_to_slots",
        _output(
            "planned_slots",
            "planned_slot",
            "the slots of the token; its first slot, or 0, in entries without one",
            lambda case: (sum(_planned(len(row), _topk(case)) for row in _slots(Inputs(case))),),
            _replaced,
        ),
    ),
    domain=WHOLE,
)
def planned_topk(kernel: Any) -> Callable[..., None]:
    """Selected slots at the places of a plan, which was made before their number was known."""

    def launch(slots_in_front: Tensor, planned_starts: Tensor, planned_slots: Tensor) -> None:
        rows, width = slots_in_front.shape
        tiles = -(-width // 256)
        sizes = {"WIDTH": width, "BLOCK_SIZE": 256}
        kernel[(rows, tiles)](slots_in_front, planned_starts, planned_slots, **sizes)

    return launch


def _made_safe(rows: list[list[int]], case: Case) -> list[Any]:
    width = _topk(case)
    kept: list[Any] = [UNTOUCHED] * width
    return [entry for row in rows for entry in (kept if row else [0, *kept[1:]])]


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/sparse_utils.py",
    "prepare_sparse_mla_safe_lengths",
    operation="topk_to_slots",
    dialect=having(
        LISTS,
        "topk_to_slots",
        Output(
            "safe_slots",
            "int32",
            "safe_slot",
            "slot 0 for a token without any; others stay",
            follows="selected_slots",
            shape=lambda case: (case.num_tokens_padded, _topk(case)),
            expect=lambda answer, inputs: _made_safe(_rows(answer, inputs.case), inputs.case),
            before=lambda inputs: _table(inputs, _slots(inputs)),
        ),
        _output(
            "safe_lens",
            "safe_row",
            "the slots of the token, one at least",
            _tokens,
            lambda rows, case: [max(len(row), 1) for row in rows],
        ),
    ),
    domain=SELECTED,
)
def safe_lengths(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Lengths for kernels that need a key of each token, and a slot to read."""

    def launch(safe_slots: Tensor, valid_of_rows: Tensor) -> dict[str, Tensor]:
        return {"safe_lens": function(safe_slots, valid_of_rows)}

    return launch
