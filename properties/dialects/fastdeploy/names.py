"""The dialect of FastDeploy: lengths by stage, tables that end in -1, padding that is never written.

``README.md`` beside this file lists the names and where FastDeploy says so.
"""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from cumae.oracle import GARBAGE, UNTOUCHED, Case, Inputs
from cumae.properties.dialects.cumae import cached_places
from cumae.properties.dialects.dialect import Dialect, Input, held_ints, host_number
from cumae.properties.dialects.fastdeploy.capture import capture
from cumae.properties.dialects.held import Ints, Rows, ints, rows, seed_in_step
from cumae.properties.dialects.odd_rows import with_odd_rows
from cumae.properties.dialects.output import Output, Piece

NO_BLOCK = -1


def _column(values: Callable[[Inputs], list[Any]]) -> Input:
    """Return an int32 input of shape [B, 1]."""

    def hold(inputs: Inputs) -> Ints:
        rows = [[value] for value in values(inputs)]
        return ints(rows, "int32", inputs.case.layout.garbage, width=1)

    return Input(hold)


def _encoder_lens(inputs: Inputs) -> list[int]:
    """Return the prefill tokens of this step: 0 for decodes and padding."""
    requests = inputs.case.batch.requests
    lens = [request.query_len if request.phase == "prefill" else 0 for request in requests]
    return lens + [0] * inputs.case.layout.num_padding_requests


def _positions(inputs: Inputs) -> list[Any]:
    """Return the positions that an earlier kernel wrote: padding holds stale values."""
    live: list[Any] = inputs["position_ids"][: inputs.case.batch.num_tokens]
    return live + [GARBAGE] * inputs.case.layout.num_padding_tokens


def _block_tables(inputs: Inputs) -> Ints:
    """Return dense rows in request order; -1 after each request's blocks and in rows without a request."""
    table = [[NO_BLOCK if entry is GARBAGE else entry for entry in row] for row in inputs["block_table"]]
    return ints(table, "int32", inputs.case.layout.garbage, width=len(table[0]) if table else 0)


def _live(values: list[Any], inputs: Inputs) -> list[Any]:
    """Return the values of tokens; every element after them keeps its content."""
    num_live = inputs.case.batch.num_tokens
    return values[:num_live] + [UNTOUCHED] * (len(values) - num_live)


def _latent_dim(case: Case) -> int:
    return case.options.rows.kv_lora_rank + case.options.rows.qk_rope_head_dim


def _kv_lora_rank(case: Case) -> int:
    return case.options.rows.kv_lora_rank


def _qk_rope_head_dim(case: Case) -> int:
    return case.options.rows.qk_rope_head_dim


def _latent_cache(inputs: Inputs) -> Rows:
    """Return blocks of [1, block_size, kv_lora_rank + qk_rope_head_dim]; the step's cached rows are live."""
    case = inputs.case
    size, width, dtype = case.batch.block_size, _latent_dim(case), case.options.rows.row_format
    live = np.insert(cached_places(inputs), 1, 0, axis=1)
    shape = (case.num_cache_blocks, 1, size, width)
    return rows(
        shape,
        dtype,
        (size * width, size * width, width, 1),
        live,
        case.layout.garbage,
        seed_in_step(inputs, 1),
    )


def _new_rows(width: Callable[[Case], int], seed: int) -> Input:
    """Return the new tokens' part of a latent row, [tokens, width], without padding."""

    def hold(inputs: Inputs) -> Rows:
        case = inputs.case
        shape = (case.batch.num_tokens, width(case))
        live = np.arange(shape[0], dtype=np.int64).reshape(-1, 1)
        own, dtype = seed_in_step(inputs, seed), case.options.rows.row_format
        held = rows(shape, dtype, (shape[1], 1), live, case.layout.garbage, own)
        return with_odd_rows(held, live[:, 0]) if case.options.rows.odd_rows else held

    return Input(hold, ("row_format",))


def _key_sources(answer: Any, _: Inputs) -> list[Any]:
    """Return the source of each row, as an index into the cache, including its dimension of size one."""
    return [("cache", s[1], 0, s[2]) if s[0] == "cache" else s for s in answer.keys]


def _full(name: str, new_rows: str, start: Callable[[Case], int], width: Callable[[Case], int]) -> Output:
    pieces = {"cache": Piece("latent_cache", start), "new": Piece(new_rows)}
    return Output(
        name,
        "bf16",
        follows="keys",
        shape=lambda case: (case.num_keys, width(case)),
        expect=_key_sources,
        pieces=pieces,
    )


_INPUTS = {
    "seq_lens_encoder": _column(_encoder_lens),
    "seq_lens_decoder": _column(lambda inputs: inputs["context_lens"]),
    "seq_lens_this_time": held_ints("int32", lambda inputs: inputs["query_lens"]),
    "cu_seqlens_q": held_ints("int32", lambda inputs: inputs["cu_seqlens_q"]),
    "cu_seqlens_k": held_ints("int32", lambda inputs: inputs["cu_seqlens_k"]),
    "cu_seqlens_cached_kv": held_ints("int32", lambda inputs: [0, *accumulate(inputs["context_lens"])]),
    "batch_id_per_token": held_ints("int32", lambda inputs: inputs["token_to_request"]),
    "positions": held_ints("int32", _positions),
    "position_ids": held_ints("int32", _positions),
    "block_tables": Input(_block_tables),
    "latent_cache": Input(_latent_cache, ("row_format",)),
    "compressed_kv": _new_rows(_kv_lora_rank, seed=2),
    "key_pe": _new_rows(_qk_rope_head_dim, seed=3),
    "kv_lora_rank": host_number(_kv_lora_rank),
    "qk_rope_head_dim": host_number(_qk_rope_head_dim),
    "total_cached_tokens": host_number(lambda case: sum(r.context_len for r in case.batch.requests)),
    "block_size": host_number(lambda case: case.batch.block_size),
    "token_num": host_number(lambda case: case.batch.num_tokens),
    "real_bsz": host_number(lambda case: len(case.batch.requests)),
}
_OUTPUTS = {
    "sequence_layout": (
        Output("cu_seqlens_q"),
        Output("cu_seqlens_k"),
        Output("batch_id_per_token", follows="token_to_request"),
    ),
    "position_ids": (
        Output("position_ids", "int32", expect=lambda answer, inputs: _live(answer.position_ids, inputs)),
    ),
    "slot_mapping": (
        Output("slot_mapping", expect=lambda answer, inputs: _live(answer.slot_mapping, inputs)),
        Output(
            "position_ids",
            "int64",
            "token",
            expect=lambda _, inputs: _live(inputs["position_ids"], inputs),
        ),
    ),
    "causal_windows": (Output("ks"), Output("ke")),
    "prefix_interleave": (
        _full("full_compressed_kv", "compressed_kv", lambda case: 0, _kv_lora_rank),
        _full("full_k_pe", "key_pe", _kv_lora_rank, _qk_rope_head_dim),
    ),
}
FASTDEPLOY = Dialect(
    "fastdeploy", _INPUTS, _OUTPUTS, own_outputs=False, values={"row_format": ("bf16",)}, capture=capture
)
