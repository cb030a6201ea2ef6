"""How far apart the elements of a function's tensors lie, and the ways in which that differs from dense."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cumae.oracle import DENSE, Batch, Case, Inputs, Layout, Request
from cumae.properties.dialects import TENSORS, Held, Ints, Rows
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.outputs import strides_of

Strides = Mapping[str, Any]
FAR = 2**15
MOST_ELEMENTS = 2**20
"""Most elements of gaps in a tensor, so that a call stays cheap."""
DEVIATIONS: tuple[Strides, ...] = (
    {"table_row_gap": 3},
    {"cache_row_gap": 1},
    {"table_row_multiple": 64},
    {"new_row_gap": 1},
    {"table_column_step": 3},
    {"cache_block_gap": 1},
    {"cache_in_turns": True},
    {"key_row_gap": 1},
    {"table_order": "column"},
    {"storage_offset": 1},
    {"vector_step": 2},
    {"table_row_gap": FAR},
    {"new_row_gap": 257},
    {"table_column_step": FAR},
    {
        "table_row_gap": 3,
        "table_column_step": 2,
        "cache_row_gap": 8,
        "cache_block_gap": 24,
        "new_row_gap": 5,
        "key_row_gap": 2,
        "vector_step": 3,
    },
)
"""One stride at a time is not dense, by little or by much; then all of them."""
_PROBE = Batch((Request(1, 1, (1,)), Request(2, 1, (2,), "decode")), 4)


def held_input(binding: Binding, name: str, inputs: Inputs) -> Held:
    """Return an input as the dialect holds it; one that may be a view lies as the layout says."""
    held = binding.dialect.inputs[name].hold(inputs)
    step = _step_of(binding, name, inputs.case)
    if step == 1 or not isinstance(held, Ints):
        return held
    return replace(held, strides=_apart(held.strides, step))


def output_strides(binding: Binding, name: str, case: Case) -> tuple[int, ...]:
    """Return the strides of an output that is passed as an argument."""
    strides = strides_of(binding.forms[name], case)
    return _apart(strides, _step_of(binding, name, case))


def _step_of(binding: Binding, name: str, case: Case) -> int:
    """Return the step of a view; each has one more than the one that is promised before it."""
    views, step = binding.domain.views, case.layout.vector_step
    return 1 if step == 1 or name not in views else step + views.index(name)


def _apart(strides: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return the strides of a view: a vector's entries have a step, and rows have a gap between them."""
    if step == 1:
        return strides
    if len(strides) == 1:
        return (step * strides[0],)
    row, entry = max(strides[-2], 1), strides[-1]
    if entry > row:
        return strides  # neighbours are in a column, and the layout has a gap of its own for those
    return (*(outer // row * (row + step - 1) for outer in strides[:-1]), entry)


def offset_of(held: Held, case: Case, *, in_place: bool) -> int:
    """Return the elements by which a tensor begins later than at an aligned address.

    Rows of bytes that are written in place hold words, so they stay aligned to 16 bytes.
    """
    holds_words = in_place and isinstance(held, Rows) and held.dtype == "uint8"
    return case.layout.storage_offset * (16 if holds_words else 1)


def shows(binding: Binding, strides: Strides) -> bool:
    """Whether a tensor of the function lies otherwise in memory than without these strides."""
    dense, other = (list(_placed(binding, Case(_PROBE, Layout(**given)))) for given in ({}, strides))
    return dense != other


def shows_strides(binding: Binding) -> bool:
    """Whether a tensor of the function has strides that a layout chooses."""
    return any(shows(binding, one) for one in DEVIATIONS if "storage_offset" not in one)


def deviation(binding: Binding, case: Case, number: int) -> Strides:
    """Return the case's own strides if they show, else the next of ``DEVIATIONS`` that does.

    ``number``: where to begin; as many numbers in a row as there are deviations take all of them.
    """
    own = {name: value for name, value in case.layout.strides.items() if value != DENSE[name]}
    if own and shows(binding, own):
        return own
    first = number % len(DEVIATIONS)
    known = (one for one in (*DEVIATIONS[first:], *DEVIATIONS[:first]) if shows(binding, one))
    return _fitting(next(known, {}), case)


def _placed(binding: Binding, case: Case) -> Iterator[tuple[int, ...]]:
    """Yield the offset and the strides of each tensor."""
    inputs = Inputs(case)
    before = {name: binding.forms[name].before for name in binding.outputs}
    held = [held_input(binding, name, inputs) for name in binding.inputs]
    held += [hold(inputs) for hold in before.values() if hold is not None]
    strides = [one.strides for one in held if isinstance(one, TENSORS)]
    strides += [output_strides(binding, name, case) for name, hold in before.items() if hold is None]
    yield from ((case.layout.storage_offset, *each) for each in strides)


def _fitting(strides: Strides, case: Case) -> Strides:
    """Return the strides with far rows and columns nearer in a large table, and far rows in a large step."""
    table = Inputs(case)["block_table"]
    count, width = max(len(table), 1), max(len(table[0]) if table else 0, 1)
    most = {
        "table_row_gap": MOST_ELEMENTS // max(count, case.num_requests_padded),
        "table_column_step": MOST_ELEMENTS // (count * width),
        "new_row_gap": MOST_ELEMENTS // max(case.max_num_tokens, 1),
    }
    return {
        name: value if value == DENSE[name] or name not in most else min(value, max(most[name], 2))
        for name, value in strides.items()
    }
