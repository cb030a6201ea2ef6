"""The block tables and lengths of a captured step."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import ANY, Case, Inputs
from cumae.properties.dialects import CUMAE, Output
from cumae.properties.engines.lmdeploy.engine import ENGINE, NAMES, STEPS
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


_GRAPH = (
    "lmdeploy/pytorch/kernels/cuda/step_metadata/fill_graph_common_inputs.py",
    "fill_graph_common_inputs",
)


@ENGINE.adapts(
    *_GRAPH,
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


_PADDED_LEN = 3
"""The query and key length that requests of padding get here."""


def _graph_lens(case: Case) -> list[list[int]]:
    """Return first rows, query lengths and key lengths; padded requests begin at row 0."""
    padded = case.layout.num_padding_requests
    queries, keys = ([getattr(r, name) for r in case.batch.requests] for name in ("query_len", "seq_len"))
    starts = [*accumulate([0, *queries])][:-1] + [0] * padded
    return [starts, *(lens + [_PADDED_LEN] * padded for lens in (queries, keys))]


_LENS = having(
    CUMAE,
    "sequence_layout",
    Output(
        "qkv_lens",
        "int64",
        "length",
        "first rows, query lengths, key lengths",
        shape=lambda case: (3, case.num_requests_padded),
        expect=lambda _, inputs: [value for lens in _graph_lens(inputs.case) for value in lens],
    ),
    Output(
        "cu_seqlens",
        "int32",
        "length_start",
        "the running sums of query and of key lengths",
        shape=lambda case: (2, case.num_requests_padded + 1),
        expect=lambda _, inputs: [
            value for lens in _graph_lens(inputs.case)[1:] for value in accumulate([0, *lens])
        ],
    ),
)


@ENGINE.adapts(
    *_GRAPH,
    operation="sequence_layout",
    dialect=_LENS,
    domain=STEPS.having(padding="written", world=(1,), max_requests=128),
)
def graph_lens(function: Any) -> Callable[..., None]:
    """First rows, lengths and running sums of a captured step, padded requests included."""

    def launch(
        block_table: Tensor,
        cu_seqlens_q: Tensor,
        query_lens: Tensor,
        seq_lens: Tensor,
        num_requests: int,
        num_tokens: int,
        qkv_lens: Tensor,
        cu_seqlens: Tensor,
    ) -> None:
        device, rows = block_table.device, qkv_lens.shape[1]
        ids, starts = torch.zeros((1, num_tokens), dtype=torch.int64, device=device), cu_seqlens_q.long()
        live = (starts[:num_requests], query_lens[:num_requests], seq_lens[:num_requests])
        table = torch.zeros((rows, 1), dtype=torch.int32, device=device)
        outputs = (torch.empty_like(ids), ids.clone(), table.clone(), qkv_lens, cu_seqlens)
        function(ids, ids.clone(), table[:num_requests], *live, *outputs, _PADDED_LEN)

    return launch


def _rows_of_tokens(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the blocks of each token's request; entries of the table behind them are copied, too."""
    case, width = inputs.case, _columns(inputs.case)
    found, given = list[Any](answer.page_table), inputs["num_page_columns"]
    for_tokens = list[Any]()
    for b, request in enumerate(case.batch.requests):
        live = -(-request.seq_len // case.batch.block_size)
        row = [*found[b * given : b * given + live], *[ANY] * (width - live)]
        for_tokens += row * request.query_len
    return for_tokens


@ENGINE.adapts(
    "lmdeploy/pytorch/kernels/cuda/step_metadata/fill_dsa_indexer_metadata.py",
    "fill_dsa_indexer_metadata",
    operation="page_table",
    dialect=having(
        NAMES,
        "page_table",
        Output(
            "expanded_block_offsets",
            "int32",
            follows="page_table",
            axis="row_of_token",
            shape=lambda case: (case.batch.num_tokens, _columns(case)),
            expect=_rows_of_tokens,
        ),
    ),
    domain=STEPS.having(
        phases=("decode",), world=(1,), max_context_len=4096, max_query_len=8, max_requests=64
    ),
)
def dsa_indexer_block_offsets(function: Any) -> Callable[..., None]:
    """The table of blocks with a row for each drafted token."""

    def launch(
        query_lens: Tensor,
        seq_lens: Tensor,
        cu_seqlens_q: Tensor,
        block_table: Tensor,
        num_tokens: int,
        max_q_seqlen: int,
        expanded_block_offsets: Tensor,
    ) -> None:
        lens = torch.empty(num_tokens, dtype=torch.int32, device=query_lens.device)
        step = (query_lens, seq_lens, cu_seqlens_q, block_table[: len(query_lens)])
        function(*step, lens, expanded_block_offsets, num_tokens, max(max_q_seqlen, 2))

    return launch
