"""The names that SGLang's DeepSeek V4 backend adds: slots of windows and of compressed states."""

from typing import Any

import numpy as np

from cumae.oracle import ANY, Case, Inputs, compressed_slots
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.dialects.output import Expect, Output
from cumae.properties.dialects.sglang.step import num_rows, padded_rows, pool_rows

DUMP_RATIOS, SKIPPED_RATIOS = (4, 128), (1, 2)
"""Tokens of a state in caches that write to slot 0 for none, and in those that write to slot -1."""


def _seq_lens_casual(inputs: Inputs) -> Ints:
    case = inputs.case
    lens = [position + 1 for position in inputs["position_ids"]]
    return ints(padded_rows(lens, case, 1), "int32", case.layout.garbage)


def _repeated(inputs: Inputs) -> Ints:
    """Return the pool row of each token's request; padding rows have that of the last one."""
    case, rows = inputs.case, pool_rows(inputs.case)
    owners = [rows[b] for b, request in enumerate(case.batch.requests) for _ in range(request.query_len)]
    return ints(padded_rows(owners, case, rows[-1] if rows else 0), "int64", case.layout.garbage)


def _raw_out_loc(inputs: Inputs) -> Ints:
    case = inputs.case
    slots = [max(slot, 0) for slot in inputs["slot_mapping"]]
    return ints(padded_rows(slots, case, 0), "int64", case.layout.garbage)


def _num_pool_slots(case: Case) -> int:
    return case.num_cache_blocks * case.batch.block_size


def _swa_slot(slot: int, num_pool_slots: int) -> int:
    """Return the slot of the window's pool for a slot of the full one, -1 for none: counted from the end."""
    return num_pool_slots - slot if slot >= 0 else -1


def _full_to_swa(inputs: Inputs) -> Ints:
    """Return the map of slots; its last entry is -1, so that an index of -1 finds it."""
    slots = _num_pool_slots(inputs.case) - np.arange(_num_pool_slots(inputs.case), dtype=np.int64)
    return Ints(np.append(slots, -1), "int64", (1,))


def _aligned_columns(case: Case) -> int:
    """Return the window, rounded up to whole groups of columns."""
    return -(-case.options.keys.window // _aligned_to(case)) * _aligned_to(case)


def _aligned_to(case: Case) -> int:
    return case.options.window_rows.min_window_columns


def _expect_indices(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the slots in the window's pool, newest position first."""
    case, found = inputs.case, list[Any]()
    num_pool_slots = _num_pool_slots(case)
    for t in range(case.batch.num_tokens):
        start = t * case.window_columns
        row = answer.window_slots[start : start + answer.window_lens[t]]
        slots = [_swa_slot(slot, num_pool_slots) for slot in reversed(row)]
        found += slots + [-1] * (_aligned_columns(case) - len(slots))
    return found + [ANY] * ((num_rows(case) - case.batch.num_tokens) * _aligned_columns(case))


def _expect_lens(answer: Any, inputs: Inputs) -> list[Any]:
    return padded_rows(answer.window_lens, inputs.case, ANY)


def _expect_states(ratio: int) -> Expect:
    """Return what the tokens of a page write: a page of states is a page of tokens divided by the ratio."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        case = inputs.case
        paged = {"compress_ratio": ratio, "block_size": max(case.batch.block_size // ratio, 1)}
        slots = Inputs(case, known=paged).call(compressed_slots).compressed_slots
        none = 0 if ratio in DUMP_RATIOS else -1
        return padded_rows([slot if slot >= 0 else none for slot in slots], case, ANY)

    return expect


def _states(ratio: int) -> Output:
    return Output(
        f"c{ratio}_out_loc",
        follows="compressed_slots",
        shape=lambda case: (num_rows(case),),
        expect=_expect_states(ratio),
        is_captured=False,
    )


GROUP_INPUTS = {
    "seq_lens_casual": Input(_seq_lens_casual),
    "req_pool_indices_repeated": Input(_repeated, ("row_index",)),
    "raw_out_loc": Input(_raw_out_loc),
    "full_to_swa_mapping": Input(_full_to_swa, has_slots=True),
    "swa_window": Input(lambda inputs: inputs.case.options.keys.window, ("window",)),
    "page_index_aligned_size": Input(lambda inputs: _aligned_to(inputs.case), ("min_window_columns",)),
}
GROUP_OUTPUTS = {
    "window_slots": (
        Output(
            "swa_page_indices",
            follows="window_slots",
            axis="aligned_window_key",
            shape=lambda case: (num_rows(case), _aligned_columns(case)),
            expect=_expect_indices,
            is_captured=False,
        ),
        Output(
            "swa_topk_lengths",
            follows="window_lens",
            shape=lambda case: (num_rows(case),),
            expect=_expect_lens,
            is_captured=False,
        ),
    ),
    "compressed_slots": tuple(_states(ratio) for ratio in (*SKIPPED_RATIOS, *DUMP_RATIOS)),
}
