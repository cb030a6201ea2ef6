"""Forms in which engines hold pages: rows with free tails, tables of tokens, lists of slots."""

from dataclasses import replace
from typing import Any

from cumae.oracle import ANY, Case, Inputs, KvIndices, kv_indices
from cumae.properties.dialects import Dialect, Output


def having(dialect: Dialect, operation: str, *outputs: Output, **inputs: Any) -> Dialect:
    """Return a dialect with more inputs, and with these outputs alone of an operation."""
    return replace(
        dialect.extend(**inputs), outputs={**dialect.outputs, operation: outputs}, own_outputs=False
    )


def slots_of(case: Case) -> list[list[int]]:
    """Return the slot of each key of each request, all of which have a block."""
    size = case.batch.block_size
    return [
        [request.block_ids[p // size] * size + p % size for p in range(request.seq_len)]
        for request in case.batch.requests
    ]


def listed_slots(inputs: Inputs) -> KvIndices:
    """Return the list of pages of one token."""
    case, rows, lens = inputs.case, slots_of(inputs.case), inputs["seq_lens"]
    count = len(rows)
    rows += [[]] * (len(lens) - count)
    return kv_indices(rows, range(len(rows)), lens, count, 1, sum(lens), case.options.keys.window)


def live_columns(answer: Any, inputs: Inputs, tail: Any = ANY) -> list[Any]:
    """Return the pages of each live request, with ``tail`` behind them and on padding."""
    case, found = inputs.case, list[Any](answer.page_table)
    width = case.num_page_columns
    for b, length in enumerate(inputs["seq_lens"]):
        live = min(-(-length // case.tokens_per_entry), width)
        found[b * width + live : (b + 1) * width] = [tail] * (width - live)
    return found


def slot_rows(inputs: Inputs, tail: Any = ANY) -> list[Any]:
    """Return the slots of each request as rows of a table of tokens, as wide as the longest request."""
    rows = slots_of(inputs.case)
    rows += [[]] * inputs.case.layout.num_padding_requests
    return [slot for row in rows for slot in (*row, *[tail] * (longest(inputs.case) - len(row)))]


def longest(case: Case) -> int:
    """Return the keys of the longest request."""
    return max((request.seq_len for request in case.batch.requests), default=0)
