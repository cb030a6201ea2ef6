"""Parts of the metadata of sparse and linear attention: lengths of a rank, rows by token, runs, chunks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import ANY, Inputs
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, STEPS, UNPADDED
from cumae.properties.engines.vllm.flat_decodes import builder

Tensor = torch.Tensor
_INDEXER = "vllm/v1/attention/backends/mla/indexer.py"
_BUILDER = "DeepseekV32IndexerMetadataBuilder"


@ENGINE.adapts(
    _INDEXER,
    f"{_BUILDER}._dcp_localize_decode_seq_lens",
    operation="local_lens",
    domain=STEPS.having(padding="none", world=(2, 3, 4, 8)),
)
def dcp_localize(method: Any) -> Callable[..., None]:
    """The decodes' lengths of a rank, in a buffer, or in place of lengths that stand in it."""

    def launch(
        seq_lens: Tensor,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        dcp_local_seq_lens: Tensor,
    ) -> None:
        rank = torch.tensor(dcp_rank, dtype=torch.int32, device=seq_lens.device)
        kept = SimpleNamespace(
            dcp_world_size=dcp_world_size,
            dcp_rank_tensor=rank,
            cp_kv_cache_interleave_size=cp_kv_cache_interleave_size,
            decode_seq_lens_buffer=dcp_local_seq_lens,
        )
        count = len(seq_lens)
        if count % 2:
            method(kept, seq_lens, count, False)
        else:
            dcp_local_seq_lens.copy_(seq_lens)
            method(kept, dcp_local_seq_lens[:count], count, True)

    return launch


def _rectangle(answer: Any, inputs: Inputs) -> list[int]:
    rows = inputs.case.num_requests_padded * inputs.case.batch.requests[0].query_len
    live: list[int] = answer.key_lens[: inputs.case.batch.num_tokens]
    return live + [0] * (rows - len(live))


@ENGINE.adapts(
    _INDEXER,
    f"{_BUILDER}._prepare_decode_tensors",
    operation="flat_decodes",
    dialect=having(
        VLLM,
        "flat_decodes",
        Output(
            "native_lens",
            "int32",
            "native_token",
            "position plus one, 0 on padded requests",
            follows="key_lens",
            shape=lambda case: (case.num_requests_padded, case.batch.requests[0].query_len),
            expect=_rectangle,
        ),
    ),
    domain=STEPS.having(phases=("decode",), verify_steps=True),
)
def native_decode_lens(method: Any) -> Callable[..., dict[str, Tensor]]:
    """A row of lengths for each request, where all decode as many tokens and kernels take several."""

    def launch(
        seq_lens: Tensor,
        block_table: Tensor,
        query_start_loc: Tensor,
        num_reqs_padded: int,
        num_tokens_padded: int,
        max_query_len: int,
    ) -> dict[str, Tensor]:
        buffers = builder(seq_lens.new_empty(num_reqs_padded * max_query_len), 1)
        buffers.offsets_buffer = torch.arange(max_query_len, dtype=torch.int32, device=seq_lens.device)
        lens = query_start_loc.diff()
        step = (seq_lens, block_table[:num_reqs_padded], lens, lens.cpu(), query_start_loc[:-1])
        sizes = (num_reqs_padded, num_tokens_padded, True, max_query_len, max_query_len)
        return {"native_lens": method(buffers, *step, *sizes)[0]}

    return launch


def _table_rows(_: Any, inputs: Inputs) -> list[Any]:
    """Return the live blocks of each token's request, anything behind them, zeros for padded tokens."""
    case, table = inputs.case, inputs["block_table"]
    width, found = len(table[0]), list[Any]()
    for owner in inputs["token_to_request"]:
        row: list[Any] = [0] * width
        if owner >= 0:
            count = -(-case.batch.requests[owner].seq_len // case.batch.block_size)
            row = [*table[owner][:count], *[ANY] * (width - count)]
        found += row
    return found


def _owners_of_tokens(inputs: Inputs) -> list[int]:
    """Return the request of each token; a padded one has a number behind the requests of the step."""
    case, owners = inputs.case, inputs["token_to_request"]
    count = case.num_requests_padded
    return [b if b >= 0 else count + t - case.batch.num_tokens for t, b in enumerate(owners)]


@ENGINE.adapts(
    "vllm/v1/attention/ops/metadata.py",
    "_indexer_decode_metadata_kernel",
    operation="sequence_layout",
    dialect=having(
        VLLM,
        "sequence_layout",
        Output(
            "table_of_tokens",
            "int32",
            "token_column",
            "the blocks of the token's request, 0 on padding",
            follows="token_to_request",
            shape=lambda case: (case.num_tokens_padded, len(Inputs(case)["block_table"][0])),
            expect=_table_rows,
        ),
        Output(
            "owners",
            "int32",
            "token",
            "the token's request; padded tokens have spare ones",
            follows="token_to_request",
            expect=lambda _, inputs: _owners_of_tokens(inputs),
        ),
        Output(
            "new_lens",
            "int32",
            "request",
            "the new tokens, 0 on padding",
            follows="cu_seqlens_q",
            shape=lambda case: (case.num_requests_padded,),
            expect=lambda _, inputs: inputs["query_lens"],
        ),
    ),
    domain=STEPS.having(
        min_tokens=1, max_tokens=512, missing_blocks=False, strided=True, views=("table_of_tokens",)
    ),
)
def indexer_decode_tables(kernel: Any) -> Callable[..., None]:
    """The other lists of the same kernel: a table row and a request for each token."""

    def launch(
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        num_reqs_padded: int,
        num_tokens_padded: int,
        table_of_tokens: Tensor,
        owners: Tensor,
        new_lens: Tensor,
    ) -> None:
        rows, width = max(num_tokens_padded, num_reqs_padded), block_table.shape[1]
        lens = seq_lens.new_empty(rows)
        ones = seq_lens.new_empty(rows)
        lists = (lens, table_of_tokens, ones, owners, new_lens)
        counts = (num_reqs_padded, num_tokens_padded, num_tokens_padded)
        strides = (block_table.stride(0), table_of_tokens.stride(0))
        kernel[(rows,)](query_start_loc, seq_lens, block_table, *lists, *counts, *strides, width)

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/sparse_utils.py",
    "request_row_bounds",
    operation="sequence_layout",
    dialect=VLLM.extend(owners_of_rows="req_id_per_token"),
    domain=UNPADDED.having(empty_requests=False, min_tokens=1),
)
def request_row_bounds(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The starts of runs of rows, from the request of each row; every request has one."""

    def launch(owners_of_rows: Tensor) -> dict[str, Tensor]:
        bounds = function(owners_of_rows.cpu().numpy())
        return {"query_start_loc": torch.from_numpy(bounds).int()}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/gdn_attn.py",
    "GDNAttentionMetadataBuilder._build_chunk_metadata",
    operation="sequence_chunks",
    domain=STEPS.having(empty_requests=False, padding="none", chunk_size=(64,)),
    async_tensor_h2d=lambda values, device, dtype=None: values.to(device, dtype),
)
def gdn_chunks(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Chunks of 64 rows of prefills, from host lengths; a clone is passed, as results are cached."""

    def launch(query_start_loc: Tensor) -> dict[str, Tensor]:
        starts = query_start_loc.clone()
        builder = SimpleNamespace(gdn_prefill_backend="triton")
        pairs, offsets = method(builder, starts, starts.cpu(), starts.device)
        return {"chunk_indices": pairs, "chunk_offsets": offsets}

    return launch
