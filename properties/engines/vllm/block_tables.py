"""Block tables of a step: gathered by row, cut into kernel blocks, expanded to tokens."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import Inputs
from cumae.properties.dialects import VLLM, Input, Output
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.engines.pages import having, live_columns, longest, slot_rows
from cumae.properties.engines.vllm.engine import ENGINE, MAPPED, STEPS, UNPADDED

Tensor = torch.Tensor
_WHOLE = UNPADDED.having(missing_blocks=False)


def _computed_of_states(inputs: Inputs) -> Ints:
    """Return the cached tokens of each row of the state, 0 in rows without a request."""
    lens = [0] * len(inputs["block_table"])
    for row, request in zip(inputs["row_index"], inputs.case.batch.requests, strict=False):
        if row >= 0:
            lens[row] = request.context_len
    return ints(lens, "int32", inputs.case.layout.garbage)


_STATES = replace(
    MAPPED.extend(computed_of_states=Input(_computed_of_states, ("row_index",))), rowless_requests=False
)
"""The kernel reads in front of the table for a request without a row."""


@ENGINE.adapts(
    "vllm/v1/worker/gpu/block_table.py",
    "_gather_block_tables_kernel",
    operation="page_table",
    dialect=_STATES,
    domain=STEPS.having(far_rows=False),
)
def gather_block_tables(kernel: Any) -> Callable[..., None]:
    """Runner V2: the rows of the second of two groups, zeros in padded rows and before the window.

    Tails of live rows stay. The first group has tables of one column. Rows are as wide as the table's, so a
    table of a million columns is left out.
    """

    def launch(
        idx_mapping: Tensor,
        state_table: Tensor,
        num_blocks: Tensor,
        computed_of_states: Tensor,
        sliding_window_reach: int,
        kernel_block_size: int,
        num_reqs: int,
        input_block_table: Tensor,
    ) -> None:
        device = state_table.device
        first = state_table.new_zeros(2, len(state_table) + len(input_block_table), 1)
        source, target = (
            torch.tensor([one.data_ptr() for one in group], device=device)
            for group in ((first[0], state_table), (first[1], input_block_table))
        )
        reach, size = (
            torch.tensor(values, dtype=torch.int32, device=device)
            for values in ((0, sliding_window_reach), (1, kernel_block_size))
        )
        counts = torch.stack([torch.zeros_like(num_blocks), num_blocks])
        kernel[(2, len(input_block_table))](
            idx_mapping,
            source,
            target,
            torch.tensor([1, state_table.stride(0)], device=device),
            counts,
            counts.stride(0),
            num_reqs,
            computed_of_states,
            reach,
            size,
            MASK_SLIDING_WINDOW=True,
            BLOCK_SIZE=1024,
        )

    return launch


def _managers_table(inputs: Inputs) -> Ints:
    """Return the blocks of each request as the manager names them, 0 behind them."""
    case = inputs.case
    width = max((len(request.block_ids) for request in case.batch.requests), default=0)
    rows = [[*request.block_ids, *[0] * (width - len(request.block_ids))] for request in case.batch.requests]
    return ints(rows, "int32", case.layout.garbage, width=width)


@ENGINE.adapts(
    "vllm/v1/worker/utils.py",
    "AttentionGroup.map_to_kernel_block_table",
    operation="page_table",
    dialect=having(
        VLLM,
        "page_table",
        Output("kernel_block_table", follows="page_table", expect=live_columns),
        managers_table=Input(_managers_table),
        num_columns=lambda case: case.num_page_columns,
    ),
    domain=_WHOLE.having(max_block_id=2**20, min_tokens=1),
)
def map_to_kernel_block_table(method: Any) -> Callable[..., Tensor]:
    """Blocks of the manager cut into kernel blocks; the columns of keys are compared.

    A table has a column in every engine, so steps without tokens are left out.
    """

    def launch(managers_table: Tensor, block_size: int, kernel_block_size: int, num_columns: int) -> Tensor:
        parts = block_size // kernel_block_size
        rows, columns = managers_table.shape
        held = torch.empty((1, rows, columns * parts), dtype=torch.int32, device=managers_table.device)
        group = SimpleNamespace(
            kernel_block_size=kernel_block_size,
            kernel_block_table=held,
            kernel_block_stride=None,
            kernel_block_offsets=torch.arange(parts, dtype=torch.int32, device=held.device),
            kv_cache_spec=SimpleNamespace(block_size=block_size),
        )
        found: Tensor = method(group, managers_table)[:, :num_columns]
        return found.contiguous()

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/amx_mla.py",
    "_expand_block_table",
    operation="page_table",
    dialect=having(
        VLLM,
        "page_table",
        Output(
            "token_rows",
            follows="page_table",
            axis="table_row",
            shape=lambda case: (case.num_requests_padded, longest(case)),
            expect=lambda _, inputs: slot_rows(inputs),
        ),
        longest=longest,
    ),
    domain=_WHOLE.having(large_slots=False),
)
def expand_block_table(function: Any) -> Callable[..., Tensor]:
    """Blocks expanded to the row of each token in the cache; those of keys are compared."""

    def launch(block_table: Tensor, block_size: int, num_reqs: int, longest: int) -> Tensor:
        found: Tensor = function(block_table[:num_reqs], block_size)[:, :longest]
        return found.contiguous()

    return launch
