"""Rows of selected slots as attention kernels want them: their lengths, a slot for each, and one list."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import UNTOUCHED, Case, Inputs, topk_to_slots
from cumae.properties.dialects import SGLANG, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.sglang.step import num_rows
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_POWERS = (1, 2, 8, 64, 512, 1024, 2048)


def _rows(inputs: Inputs) -> list[list[int]]:
    """Return the slots of the positions that each row selects, -1 for none."""
    expect = SGLANG.outputs["topk_to_slots"][0].expect
    assert expect is not None
    slots, width = expect(inputs.call(topk_to_slots), inputs), inputs.case.options.selection.topk
    return [slots[t * width : (t + 1) * width] for t in range(num_rows(inputs.case))]


def _packed(inputs: Inputs) -> list[list[int]]:
    """Return the slots of each row, those that there are."""
    return [[slot for slot in row if slot >= 0] for row in _rows(inputs)]


def _table(inputs: Inputs, rows: list[list[int]]) -> Ints:
    width = inputs.case.options.selection.topk
    filled = [row + [-1] * (width - len(row)) for row in rows]
    return ints(filled, "int32", inputs.case.layout.garbage, width=width)


def _starts(inputs: Inputs) -> Ints:
    return ints([0, *accumulate(map(len, _packed(inputs)))], "int32", inputs.case.layout.garbage)


_SELECTED = SGLANG.extend(
    slots_of_rows=Input(lambda inputs: _table(inputs, _rows(inputs)), ("topk",)),
    slots_in_front=Input(lambda inputs: _table(inputs, _packed(inputs)), ("topk",)),
    starts_of_rows=Input(_starts, ("topk",)),
)


def _per_row(name: str, rule: str, of: Callable[[list[int]], int], rows: Any = _packed) -> Output:
    return Output(
        name,
        "int32",
        "selecting_row",
        rule,
        follows="selected_slots",
        shape=lambda case: (num_rows(case),),
        expect=lambda _, inputs: [of(row) for row in rows(inputs)],
    )


def _reach(row: list[int]) -> int:
    """Return one past the last entry with a slot, 1 for an empty row."""
    return max([i + 1 for i, slot in enumerate(row) if slot >= 0], default=1)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "q8kv8_topk_length_from_indices",
    operation="topk_to_slots",
    dialect=having(
        _SELECTED,
        "topk_to_slots",
        _per_row("reach_of_rows", "one past the last entry with a slot, 1 at least", _reach, _rows),
    ),
    domain=STEPS.having(topk=(128, 256, 384, 512, 1024, 2048)),
)
def topk_reach(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The entries of a row that a kernel must look at; rows are whole tiles of 128 and more."""

    def launch(slots_of_rows: Tensor) -> dict[str, Tensor]:
        return {"reach_of_rows": function(slots_of_rows)}

    return launch


def _made_safe(_: Any, inputs: Inputs) -> list[Any]:
    kept: list[Any] = [UNTOUCHED] * inputs.case.options.selection.topk
    return [entry for row in _packed(inputs) for entry in (kept if row else [0, *kept[1:]])]


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "prepare_trtllm_nope_sparse_metadata",
    operation="topk_to_slots",
    dialect=having(
        _SELECTED,
        "topk_to_slots",
        Output(
            "safe_slots",
            "int32",
            "safe_slot",
            "slot 0 in a row without any; others stay",
            follows="selected_slots",
            shape=lambda case: (num_rows(case), case.options.selection.topk),
            expect=_made_safe,
            before=lambda inputs: _table(inputs, _packed(inputs)),
        ),
        _per_row("safe_lens", "the slots of the row, 1 at least", lambda row: max(len(row), 1)),
    ),
    domain=STEPS,
)
def topk_made_safe(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Lengths for a kernel that needs a key of each row, and a slot to read."""

    def launch(safe_slots: Tensor, slots_in_front: Tensor) -> dict[str, Tensor]:
        return {"safe_lens": function(safe_slots)}

    return launch


def _listed(_: Any, inputs: Inputs) -> list[Any]:
    flat: list[Any] = [slot for row in _packed(inputs) for slot in row]
    return flat + [UNTOUCHED] * (_room(inputs.case) - len(flat))


def _room(case: Case) -> int:
    return num_rows(case) * case.options.selection.topk


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/triton_kernel.py",
    "get_valid_kv_indices",
    operation="topk_to_slots",
    dialect=having(
        _SELECTED,
        "topk_to_slots",
        Output(
            "listed_slots",
            "int32",
            "listed_slot",
            "the slots of all rows, in order",
            follows="selected_slots",
            shape=lambda case: (_room(case),),
            expect=_listed,
        ),
    ),
    domain=STEPS.having(topk=_POWERS),
)
def topk_listed(function: Any) -> Callable[..., None]:
    """The slots of all rows in one list; rows have a power of two entries, -1 among them."""

    def launch(slots_of_rows: Tensor, starts_of_rows: Tensor, listed_slots: Tensor) -> None:
        function(slots_of_rows, starts_of_rows, listed_slots, len(slots_of_rows))

    return launch
