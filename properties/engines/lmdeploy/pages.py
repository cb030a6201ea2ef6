"""The block table of a captured step."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import CUMAE, Output
from cumae.properties.engines.lmdeploy.engine import ENGINE, STEPS
from cumae.properties.engines.pages import having, live_columns

Tensor = torch.Tensor


def _columns(case: Case) -> int:
    """Return the columns of the table of blocks."""
    table = Inputs(case)["block_table"]
    return len(table[0]) if table else 0


def _graph_rows(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each request; entries of the table behind them are copied, too; the rest is 0."""
    found, width = live_columns(answer, inputs), inputs["num_page_columns"]
    for b in range(inputs["num_requests_padded"]):
        copied = _columns(inputs.case) if b < inputs["num_requests"] else 0
        found[b * width + copied : (b + 1) * width] = [0] * max(width - copied, 0)
    return found


@ENGINE.adapts(
    "lmdeploy/pytorch/kernels/cuda/step_metadata/fill_graph_common_inputs.py",
    "fill_graph_common_inputs",
    operation="page_table",
    dialect=having(
        CUMAE,
        "page_table",
        Output("graph_block_offsets", "int32", follows="page_table", expect=_graph_rows),
    ),
    domain=STEPS.having(padding="written", page_slack=(0, 1, 9), world=(1,), max_requests=128),
)
def graph_block_offsets(function: Any) -> Callable[..., None]:
    """Rows of a captured step: those of the table, then zeros over the width and on padding."""

    def launch(
        block_table: Tensor,
        cu_seqlens_q: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        num_requests: int,
        num_tokens: int,
        graph_block_offsets: Tensor,
    ) -> None:
        device, rows = block_table.device, len(graph_block_offsets)
        width = min(block_table.shape[1], graph_block_offsets.shape[1])
        ids, starts = torch.zeros((1, num_tokens), dtype=torch.int64, device=device), cu_seqlens_q.long()
        lens = torch.empty((3, rows), dtype=torch.int64, device=device)
        sums = torch.empty((2, rows + 1), dtype=torch.int32, device=device)
        live = (starts[:num_requests], query_lens[:num_requests], seq_lens[:num_requests])
        table = (ids, ids.clone(), block_table[:num_requests, :width], *live)
        function(*table, torch.empty_like(ids), ids.clone(), graph_block_offsets, lens, sums, 1)

    return launch
