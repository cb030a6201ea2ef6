"""The plan of a captured decode step: its table of pages, and the keys of each query and of each chunk."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import ANY, Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.engines.pages import having, longest
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.engine import ENGINE

Tensor = torch.Tensor
_PAGE, _CHUNK = 128, 16
"""Tokens of a page and queries of a chunk, which the kernel has as constants."""
_MAX_PAGES, _MAX_NEW = 8192, 40
"""The most pages of a request, which its launcher refuses to exceed, and new tokens of a step."""


def _columns(case: Case) -> int:
    return -(-longest(case) // _PAGE)


def _pages(_: Any, inputs: Inputs) -> list[Any]:
    """Return the pages of each request, and anything behind them: whole rows are copied."""
    width, found = _columns(inputs.case), list[Any]()
    for request in inputs.case.batch.requests:
        pages = request.block_ids[: -(-request.seq_len // _PAGE)]
        found += [*pages, *[ANY] * (width - len(pages))]
    return found


def _chunk_lens(inputs: Inputs) -> list[int]:
    """Return of each chunk of queries the keys that the last of them sees, request by request."""
    requests = inputs.case.batch.requests
    each = requests[0].query_len
    stops = [min(start + _CHUNK, each) for start in range(0, each, _CHUNK)]
    return [request.context_len + stop for stop in stops for request in requests]


def _lens(name: str, rule: str, shape: Callable[[Case], tuple[int, ...]], of: Any) -> Output:
    return Output(
        name,
        "int32",
        f"place_of_{name}",
        rule,
        follows="page_table",
        shape=shape,
        expect=lambda _, inputs: of(inputs),
    )


@ENGINE.adapts(
    "sglang/kernels/ops/attention/msa_v1/decode_plan.py",
    "update_msa_v1_decode_plan",
    operation="page_table",
    dialect=having(
        DRAFTED,
        "page_table",
        Output(
            "plan_table",
            "int32",
            "place_of_plan_table",
            "the pages of the request",
            follows="page_table",
            shape=lambda case: (len(case.batch.requests), _columns(case)),
            expect=_pages,
        ),
        _lens(
            "final_lens",
            "the keys after the step",
            lambda case: (len(case.batch.requests),),
            lambda inputs: inputs["seq_lens"],
        ),
        _lens(
            "query_lens_of_plan",
            "the keys that the query sees",
            lambda case: (case.batch.num_tokens,),
            lambda inputs: [position + 1 for position in inputs["position_ids"]],
        ),
        _lens(
            "chunk_lens",
            "the keys that the last query of the chunk sees",
            lambda case: (-(-case.batch.requests[0].query_len // _CHUNK), len(case.batch.requests)),
            _chunk_lens,
        ),
    ),
    domain=DRAFTS.having(
        block_sizes=(_PAGE,),
        max_context_len=_MAX_PAGES * _PAGE - _MAX_NEW,
        max_query_len=_MAX_NEW,
        max_tokens=4096,
        missing_blocks=False,
        rowless_requests=False,
    ),
)
def msa_decode_plan(function: Any) -> Callable[..., None]:
    """MSA: pages of 128 tokens, and the keys of chunks of 16 queries."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        start_offset: Tensor,
        num_new: int,
        plan_table: Tensor,
        final_lens: Tensor,
        query_lens_of_plan: Tensor,
        chunk_lens: Tensor,
    ) -> None:
        function(
            req_to_token=req_to_token,
            req_pool_indices=req_pool_indices,
            seq_lens=start_offset,
            query_length=num_new,
            seq_len_offset=num_new,
            page_table=plan_table,
            final_seq_lens=final_lens,
            chunk_seq_lens=chunk_lens,
            query_seq_lens=query_lens_of_plan,
        )

    return launch
