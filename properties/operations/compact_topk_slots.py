"""Compact selected slots as an operation: the slots of a row may stand in any order."""

from collections.abc import Mapping, Sequence
from typing import Any

from cumae import oracle
from cumae.oracle import Inputs
from cumae.properties.dialects import Output
from cumae.properties.operations.enlarged import largest_slots
from cumae.properties.operations.operation import Operation


def _faults(inputs: Inputs, outputs: Mapping[str, list[Any]]) -> Sequence[str]:
    right = inputs.call(oracle.compact_topk_slots)
    return oracle.compact_topk_slots_faults(right, inputs["topk"], **outputs)


_OF_RANKS = ("world", "rank", "interleave")
SELECTING = frozenset(
    {
        "topk",
        "select_beyond",
        "selected_first",
        "selects_fewer",
        "selection_order",
        *_OF_RANKS,
        "missing_blocks",
        "prefill_workspace",
    }
)
"""The features of operations that look up the slots of selected positions."""
COMPACT_TOPK_SLOTS = Operation(
    "compact_topk_slots",
    oracle.compact_topk_slots,
    (
        Output(
            "compact_slots",
            "int32",
            "selected_key",
            "the slots of the row's selected positions in any order, then -1",
            unordered=True,
        ),
        Output("num_valid", "int32", "token", "how many of the selected positions have a slot"),
    ),
    SELECTING,
    "each row starts with the slots of its selected positions, in any order; -1 fills the rest",
    ("cumae.gpu_impl:write_compact_topk_slots",),
    largest_slots,
    _faults,
    lambda inputs: [1] * inputs["num_tokens_padded"],
)
