"""The dialect of vLLM's V1 engine: its block table, its common metadata, the chunk of its sparse indexer.

``README.md`` beside this file lists the names and where vLLM says so. Phases are the case's own; vLLM
derives them from query lengths once decodes stand first.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from cumae.oracle import Case, Inputs, Request, causal_windows, local_len
from cumae.properties.dialects.dialect import Dialect, Input, held_ints, host_number
from cumae.properties.dialects.held import Ints, in_table, ints
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.vllm.cache import (
    CACHE_INPUTS,
    CACHE_OUTPUTS,
    PAGE_READ_INPUTS,
    PAGE_WRITE_INPUTS,
)
from cumae.properties.dialects.vllm.cache_groups import GROUP_INPUTS, GROUP_OUTPUTS
from cumae.properties.dialects.vllm.capture import NULL_BLOCK, capture
from cumae.properties.dialects.vllm.cuts import CUT_INPUTS, CUT_OUTPUTS
from cumae.properties.dialects.vllm.drafts import DRAFT_INPUTS, DRAFT_OUTPUTS
from cumae.properties.dialects.vllm.mla import INPUTS, OUTPUTS
from cumae.properties.dialects.vllm.moe import ROUTER_INPUTS, ROUTER_OUTPUTS
from cumae.properties.dialects.vllm.pages import PAGE_INPUTS, PAGE_OUTPUTS


def _positions(inputs: Inputs) -> Ints:
    return ints(inputs["position_ids"], "int64", inputs.case.layout.garbage)


def _block_table(inputs: Inputs) -> Ints:
    """Return rows of live requests, then padded rows that hold the null block; columns are adjacent."""
    layout, num_live = inputs.case.layout, len(inputs.case.batch.requests)
    table = [list(row) for row in inputs["block_table"]]
    width = len(table[0]) if table else 0
    for row in range(num_live, num_live + layout.num_padding_requests):
        table[row] = [NULL_BLOCK] * width
    held = ints(table, "int32", layout.garbage, width=width)
    return in_table(held, layout)


def _req_id_per_token(inputs: Inputs) -> list[int]:
    return [max(b, 0) for b in inputs["token_to_request"]]


def _prefills(case: Case) -> list[Request]:
    """Return the requests of the prefill chunk, in order."""
    return [request for request in case.batch.requests if request.phase == "prefill"]


def _is_prefilling(inputs: Inputs) -> Ints:
    phases = [int(request.phase == "prefill") for request in inputs.case.batch.requests]
    return ints(phases + [0] * inputs.case.layout.num_padding_requests, "bool", inputs.case.layout.garbage)


def _num_prefill_tokens(case: Case) -> int:
    return sum(request.query_len for request in _prefills(case))


def _num_rows(request: Request, case: Case) -> int:
    return request.seq_len // case.options.keys.compress_ratio


def _num_local_rows(request: Request, case: Case) -> int:
    options = case.options
    return local_len(
        _num_rows(request, case), case.batch.world, options.parallel.rank, options.parallel.interleave
    )


def _starts(count: Callable[[Request, Case], int]) -> Callable[[Inputs], list[int]]:
    """Return the running sum of ``count`` over the requests of the prefill chunk."""
    return lambda inputs: [0, *accumulate(count(r, inputs.case) for r in _prefills(inputs.case))]


def _windows(bound: str) -> Callable[[Any, Inputs], list[int]]:
    """Return the bounds of prefill tokens, over this rank's rows of the chunk's keys."""

    def expect(_: Any, inputs: Inputs) -> list[int]:
        case = inputs.case
        scoped = replace(case, options=case.options.having(key_scope="prefill"))
        answer = Inputs(scoped).call(causal_windows)
        starts = zip(_starts(_num_rows)(inputs), _starts(_num_local_rows)(inputs), strict=True)
        bounds: list[int] = []
        row = 0
        for request in case.batch.requests:
            if request.phase == "prefill":
                first, first_local = next(starts)
                there = getattr(answer, bound)[row : row + request.query_len]
                bounds += [first_local + key - first for key in there]
            row += request.query_len
        return bounds

    return expect


def _bound(name: str, follows: str) -> Output:
    return Output(
        name,
        axis="prefill_window_start" if follows == "ks" else "prefill_window_stop",
        follows=follows,
        shape=lambda case: (_num_prefill_tokens(case),),
        expect=_windows(follows),
    )


def _longest(name: str) -> Callable[[Case], int]:
    return lambda case: max((getattr(request, name) for request in case.batch.requests), default=0)


def _per_request(name: str) -> Input:
    return held_ints("int32", lambda inputs: inputs[name])


_INPUTS = {
    "query_start_loc": _per_request("cu_seqlens_q"),
    "query_start_loc_cpu": _per_request("cu_seqlens_q"),
    "seq_lens": _per_request("seq_lens"),
    "seq_lens_cpu": _per_request("seq_lens"),
    "num_computed_tokens": _per_request("context_lens"),
    "num_computed_tokens_cpu": _per_request("context_lens"),
    "req_id_per_token": held_ints("int32", _req_id_per_token),
    "req_id": held_ints("int32", _req_id_per_token),
    "token_to_req_indices": held_ints("int32", _req_id_per_token),
    "positions": Input(_positions),
    "is_prefilling": Input(_is_prefilling),
    "block_table": Input(_block_table),
    "block_size": host_number(lambda case: case.batch.block_size),
    "kernel_block_size": host_number(lambda case: case.kernel_block_size),
    "num_tokens": host_number(lambda case: case.batch.num_tokens),
    "num_tokens_padded": host_number(lambda case: case.num_tokens_padded),
    "num_actual_tokens": host_number(lambda case: case.num_tokens_padded),
    "num_reqs": host_number(lambda case: len(case.batch.requests)),
    "num_reqs_padded": host_number(lambda case: case.num_requests_padded),
    "max_query_len": host_number(_longest("query_len")),
    "max_seq_len": host_number(_longest("seq_len")),
    "dcp_world_size": host_number(lambda case: case.batch.world, "world"),
    "dcp_rank": host_number(lambda case: case.options.parallel.rank, "rank"),
    "cp_interleave": host_number(lambda case: case.options.parallel.interleave, "interleave"),
    "cp_kv_cache_interleave_size": host_number(lambda case: case.options.parallel.interleave, "interleave"),
    "compress_ratio": host_number(lambda case: case.options.keys.compress_ratio, "split_groups"),
    "num_prefills": host_number(lambda case: len(_prefills(case))),
    "num_prefill_tokens": host_number(_num_prefill_tokens),
    "num_decodes": host_number(lambda case: len(case.batch.requests) - len(_prefills(case))),
    "num_decode_tokens": host_number(lambda case: case.batch.num_tokens - _num_prefill_tokens(case)),
    "prefill_query_start_loc": held_ints("int32", _starts(lambda request, _: request.query_len)),
    "uncompressed_seq_lens": held_ints("int32", lambda inputs: [r.seq_len for r in _prefills(inputs.case)]),
    "cu_seq_lens": held_ints("int32", _starts(_num_rows)),
    "local_cu_seq_lens": held_ints("int32", _starts(_num_local_rows)),
}
_OUTPUTS = {
    "sequence_layout": (
        Output("query_start_loc", follows="cu_seqlens_q"),
        Output(
            "req_id_per_token",
            follows="token_to_request",
            expect=lambda _, inputs: _req_id_per_token(inputs),
        ),
    ),
    "position_ids": (Output("positions", follows="position_ids"),),
    "slot_mapping": (Output("slot_mapping"),),
    "local_lens": (Output("dcp_local_seq_lens", follows="local_lens"),),
    "causal_windows": (_bound("cu_seqlen_ks", "ks"), _bound("cu_seqlen_ke", "ke")),
}
VLLM = Dialect(
    "vllm",
    {
        **_INPUTS,
        **INPUTS,
        **CACHE_INPUTS,
        **CUT_INPUTS,
        **DRAFT_INPUTS,
        **GROUP_INPUTS,
        **PAGE_INPUTS,
        **PAGE_READ_INPUTS,
        **PAGE_WRITE_INPUTS,
        **ROUTER_INPUTS,
    },
    {
        **_OUTPUTS,
        **OUTPUTS,
        **CACHE_OUTPUTS,
        **CUT_OUTPUTS,
        **DRAFT_OUTPUTS,
        **GROUP_OUTPUTS,
        **PAGE_OUTPUTS,
        **ROUTER_OUTPUTS,
    },
    own_outputs=False,
    quiet_garbage="zero",
    reserved_blocks=NULL_BLOCK + 1,
    capture=capture,
)
