"""vLLM's adapters, and the steps and names that several of them promise."""

from dataclasses import replace
from typing import Any

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import VLLM, Input, Ints
from cumae.properties.dialects.held import in_table, ints
from cumae.properties.engines.adapter import Engine

ENGINE = Engine("vllm", "vllm", ("0.33.0",))
STEPS = Domain(min_requests=1, max_requests=1024, strided=False, captured=False)
SMALL = STEPS.having(large_slots=False)
UNPADDED = STEPS.having(padding="none")
NEW = SMALL.having(padding="none", min_tokens=1)


def _rows(case: Case) -> Any:
    """Return the state row of each request: the table's rows are in the requests' order."""
    return np.arange(len(case.batch.requests), dtype=np.int32)


STARTS = VLLM.extend(starts="query_start_loc")
V2 = STARTS.extend(idx_mapping=_rows)


def _state_rows(inputs: Inputs) -> Ints:
    """Return the state row of each request, -1 for one that owns no blocks."""
    case = inputs.case
    rows = case.layout.row_index
    found = _rows(case) if rows is None else np.array(rows, dtype=np.int32)
    return Ints(found.astype(np.int64), "int32", (1,))


def _state_table(inputs: Inputs) -> Ints:
    """Return the table of all states, which has no padded rows."""
    table, layout = inputs["block_table"], inputs.case.layout
    held = ints(table, "int32", layout.garbage, width=len(table[0]) if table else 0)
    return in_table(held, layout)


MAPPED = replace(
    STARTS.extend(
        idx_mapping=Input(_state_rows, ("row_index",)),
        state_table=Input(_state_table),
    ),
    row_name="idx_mapping",
)
"""Requests in rows of the table in any order, some without a row."""
SELECTED = SMALL.having(min_tokens=1)


def _last_positions(case: Case) -> Any:
    """Return the position of each request's last cached token."""
    return np.array([request.context_len - 1 for request in case.batch.requests], dtype=np.int64)


DRAFTS = VLLM.extend(previous_positions=_last_positions)
