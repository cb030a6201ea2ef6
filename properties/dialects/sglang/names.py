"""The dialect of SGLang: a slot for each token in a pool of requests, forward modes, dump slot 0.

``README.md`` beside this file lists the names and where SGLang says so.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from cumae.oracle import ANY, GARBAGE, Case, Inputs, Request, causal_windows
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.dialects.dialect import Dialect, Input, held_ints
from cumae.properties.dialects.output import Expect, Output
from cumae.properties.dialects.sglang.allocator import ALLOCATOR_INPUTS, ALLOCATOR_OUTPUTS
from cumae.properties.dialects.sglang.cache_groups import GROUP_INPUTS, GROUP_OUTPUTS
from cumae.properties.dialects.sglang.capture import DUMP_PAGE, DUMP_ROW, PADDED_SEQ_LEN, capture
from cumae.properties.dialects.sglang.cuts import CUT_INPUTS, CUT_OUTPUTS
from cumae.properties.dialects.sglang.heads import HEAD_INPUTS, HEAD_OUTPUTS
from cumae.properties.dialects.sglang.mla import INPUTS, OUTPUTS
from cumae.properties.dialects.sglang.pages import (
    PAGE_INPUTS,
    PAGE_OUTPUTS,
    RULE_OF_READ_KEYS,
    WHOLE_SEQUENCES,
)
from cumae.properties.dialects.sglang.step import (
    cache_seqlens,
    draft_token_num,
    extend_prefix_lens,
    forward_mode,
    num_rows,
    padded_rows,
    page_table,
    pool_rows,
    req_to_token,
)


def _padded(case: Case, of: Callable[[Request], int], padding: int) -> list[int]:
    return [of(request) for request in case.batch.requests] + [padding] * case.layout.num_padding_requests


def _seq_lens(case: Case) -> list[int]:
    """Return the lengths after the step; in a verify step, the lengths before its drafts."""
    if forward_mode(case.batch) == "verify":
        return _padded(case, lambda request: request.context_len, PADDED_SEQ_LEN)
    return _padded(case, lambda request: request.seq_len, PADDED_SEQ_LEN)


def _kv_indptr(case: Case) -> list[int]:
    """Return the running sum of tokens read from the cache; an extend passes its new tokens separately."""
    extends = forward_mode(case.batch) == "extend"
    return [0, *accumulate(extend_prefix_lens(case) if extends else _seq_lens(case))]


def _starts(inputs: Inputs) -> list[int]:
    starts: list[int] = inputs["cu_seqlens_q"]
    return starts


def _token_to_batch_idx(inputs: Inputs) -> list[Any]:
    return padded_rows(inputs["token_to_request"], inputs.case, GARBAGE)


def _free_behind(values: Sequence[Any], num_live: int) -> list[Any]:
    """Return the values, with ANY in the padding, which SGLang leaves unspecified."""
    return [*values[:num_live], *[ANY] * (len(values) - num_live)]


def _expect_qo_indptr(answer: Any, inputs: Inputs) -> list[Any]:
    case = inputs.case
    live = len(case.batch.requests) + 1
    free = forward_mode(case.batch) != "extend"
    return _free_behind(answer.cu_seqlens_q, live) if free else list(answer.cu_seqlens_q)


def _req_pool_indices(case: Case) -> list[int]:
    return pool_rows(case) + [DUMP_ROW] * case.layout.num_padding_requests


def _expect_slots(answer: Any, inputs: Inputs) -> list[Any]:
    """Return slots with the dump slot for -1, and ANY for a slot that does not fit in 32 bits."""
    slots = [ANY if slot > INT32_MAX else max(slot, 0) for slot in answer.slot_mapping]
    return padded_rows(slots, inputs.case, 0)


def _expect_window(bound: str) -> Callable[[Any, Inputs], list[Any]]:
    """Return windows of an extend batch's indexer: each request is a prefill; it has no rows of padding."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        case = inputs.case
        every = [True] * case.num_requests_padded
        windows = causal_windows(inputs["context_lens"], inputs["query_lens"], every, case.num_tokens_padded)
        return padded_rows(getattr(windows, bound), case, ANY)

    return expect


def _of_case(dtype: str, values: Callable[[Case], Sequence[Any]], *carries: str) -> Input:
    return held_ints(dtype, lambda inputs: values(inputs.case), *carries)


def _per_row(name: str, follows: str, expect: Expect, axis: str = "") -> Output:
    """Return an output with an entry for each row of the step."""
    return Output(name, axis=axis, follows=follows, shape=lambda case: (num_rows(case),), expect=expect)


_INPUTS = {
    "forward_mode": Input(lambda inputs: forward_mode(inputs.case.batch)),
    "page_size": Input(lambda inputs: inputs.case.batch.block_size),
    "num_token_non_padded": Input(lambda inputs: inputs.case.batch.num_tokens),
    "draft_token_num": Input(lambda inputs: draft_token_num(inputs.case)),
    "seq_lens": _of_case("int64", _seq_lens),
    "cache_seqlens_int32": _of_case("int32", cache_seqlens),
    "extend_prefix_lens": _of_case("int32", extend_prefix_lens),
    "extend_seq_lens": held_ints("int32", lambda inputs: inputs["query_lens"]),
    "extend_start_loc": held_ints("int32", lambda inputs: _starts(inputs)[:-1]),
    "qo_indptr": held_ints("int32", _starts),
    "cu_seqlens_q": held_ints("int32", _starts),
    "cu_seqlens_k": _of_case("int32", lambda case: [0, *accumulate(cache_seqlens(case))]),
    "kv_indptr": _of_case("int32", _kv_indptr),
    "token_to_batch_idx": held_ints("int32", _token_to_batch_idx),
    "positions": held_ints("int64", lambda inputs: padded_rows(inputs["position_ids"], inputs.case, 0)),
    "req_pool_indices": _of_case("int64", _req_pool_indices, "row_index"),
    "req_to_token": Input(req_to_token),
    "page_table": Input(page_table),
}
_OUTPUTS = {
    "sequence_layout": (
        Output(
            "extend_start_loc",
            "int32",
            "request",
            expect=lambda answer, inputs: _free_behind(
                answer.cu_seqlens_q[:-1], len(inputs.case.batch.requests)
            ),
        ),
        Output("qo_indptr", follows="cu_seqlens_q", expect=_expect_qo_indptr),
        Output(
            "cu_seqlens_q",
            expect=lambda answer, inputs: _free_behind(
                answer.cu_seqlens_q, len(inputs.case.batch.requests) + 1
            ),
        ),
        Output("cu_seqlens_k", expect=lambda _, inputs: [0, *accumulate(cache_seqlens(inputs.case))]),
        Output(
            "kv_indptr",
            follows="cu_seqlens_k",
            rule=RULE_OF_READ_KEYS,
            expect=lambda _, inputs: _kv_indptr(inputs.case),
            mistaken=WHOLE_SEQUENCES,
        ),
        _per_row(
            "token_to_batch_idx",
            "token_to_request",
            lambda answer, inputs: padded_rows(answer.token_to_request, inputs.case, ANY),
        ),
    ),
    "position_ids": (
        _per_row(
            "positions",
            "position_ids",
            lambda answer, inputs: padded_rows(answer.position_ids, inputs.case, 0),
        ),
    ),
    # Not of axis "slot": 0 means none here, but reports would call it a slot of block 0.
    "slot_mapping": (_per_row("out_cache_loc", "slot_mapping", _expect_slots, axis="token"),),
    "causal_windows": (
        _per_row("ks", "ks", _expect_window("ks")),
        _per_row("ke", "ke", _expect_window("ke")),
    ),
}
SGLANG = Dialect(
    "sglang",
    {
        **_INPUTS,
        **INPUTS,
        **ALLOCATOR_INPUTS,
        **CUT_INPUTS,
        **GROUP_INPUTS,
        **HEAD_INPUTS,
        **PAGE_INPUTS,
    },
    {
        **_OUTPUTS,
        **OUTPUTS,
        **ALLOCATOR_OUTPUTS,
        **CUT_OUTPUTS,
        **GROUP_OUTPUTS,
        **HEAD_OUTPUTS,
        **PAGE_OUTPUTS,
    },
    own_outputs=False,
    quiet_garbage="zero",
    reserved_blocks=DUMP_PAGE + 1,
    capture=capture,
    values={"head_format": ("bf16", "fp16", "fp32", "bytes")},
    row_name="req_pool_indices",
    rowless_requests=False,
    pads_requests=True,
)
