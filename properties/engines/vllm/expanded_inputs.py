"""The first step of parallel drafts, with more rows for each request."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.draft_prefills import id_of
from cumae.properties.engines.vllm.drafts import DRAFTS, STEPS, held
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.verified_drafts import rejected_lens

Tensor = torch.Tensor
_EAGLE = "vllm/v1/spec_decode/utils.py"
_EXTRA = 3
"""Rows that a request gets behind its tokens: the sampled token, and masks of parallel drafts."""


def _moves(case: Case) -> bool:
    """Whether ids move by one, as in models that read hidden states; one row is less then."""
    return len(case.batch.requests) % 2 == 0


def _layout(case: Case) -> list[tuple[int, int, int, int]]:
    """Return of each request its first row, the first of its new layout, its valid and its rejected rows."""
    starts, found, first = Inputs(case)["cu_seqlens_q"], list[tuple[int, int, int, int]](), 0
    moved = _moves(case)
    for b, rejected in enumerate(rejected_lens(case)):
        valid = starts[b + 1] - starts[b] - rejected - moved
        found.append((starts[b], first, valid, rejected))
        first += valid + _EXTRA + rejected
    return found


def _total(case: Case) -> int:
    return sum(valid + _EXTRA + rejected for *_, valid, rejected in _layout(case))


def _new_rows(inputs: Inputs, of: Callable[[int, int, int, int], list[Any]]) -> list[Any]:
    rows = enumerate(_layout(inputs.case))
    return [entry for b, (start, _, valid, rejected) in rows for entry in of(b, start, valid, rejected)]


def _new_ids(inputs: Inputs) -> list[Any]:
    moved = _moves(inputs.case)

    def ids(b: int, start: int, valid: int, rejected: int) -> list[Any]:
        kept = [id_of(start + moved + i) for i in range(valid)]
        return [*kept, -100 - b, *[-7] * (_EXTRA - 1), *[-5] * rejected]

    return _new_rows(inputs, ids)


def _new_positions(inputs: Inputs) -> list[Any]:
    def positions(b: int, start: int, valid: int, rejected: int) -> list[Any]:
        context = inputs.case.batch.requests[b].context_len
        return [*range(context, context + valid + _EXTRA), *[0] * rejected]

    return _new_rows(inputs, positions)


def _hidden_places(inputs: Inputs) -> list[Any]:
    """Return the new row of each old one; without hidden states none is written."""
    case = inputs.case
    if not _moves(case):
        return [UNTOUCHED] * case.batch.num_tokens
    rows = zip(case.batch.requests, _layout(case), strict=True)
    return [first + i for request, (_, first, _, _) in rows for i in range(request.query_len)]


def _of_rows(name: str, dtype: str, rule: str, count: Callable[[Case], int], values: Any) -> Output:
    return Output(
        name, dtype, "", rule, shape=lambda case: (count(case),), expect=lambda _, inputs: values(inputs)
    )


@ENGINE.adapts(
    _EAGLE,
    "copy_and_expand_eagle_inputs_kernel",
    operation="draft_steps",
    dialect=having(
        DRAFTS,
        "draft_steps",
        _of_rows("new_ids", "int32", "kept ids, the sampled one, masks, padding", _total, _new_ids),
        _of_rows("new_positions", "int64", "on from the context, 0 if rejected", _total, _new_positions),
        _of_rows(
            "is_rejected",
            "int32",
            "1 for rejected rows",
            _total,
            lambda inputs: _new_rows(inputs, lambda b, s, v, r: [0] * (v + _EXTRA) + [1] * r),
        ),
        _of_rows(
            "is_masked",
            "int32",
            "1 for masks of parallel drafts",
            _total,
            lambda inputs: _new_rows(inputs, lambda b, s, v, r: [0] * (v + 1) + [1] * (_EXTRA - 1) + [0] * r),
        ),
        _of_rows(
            "sampled_rows",
            "int32",
            "the rows of the sampled token and of the masks",
            lambda case: _EXTRA * len(case.batch.requests),
            lambda inputs: [first + v + i for _, first, v, _ in _layout(inputs.case) for i in range(_EXTRA)],
        ),
        _of_rows(
            "hidden_rows",
            "int32",
            "the new row of each row",
            lambda case: case.batch.num_tokens,
            _hidden_places,
        ),
        ids_of_rows=held(lambda case: [id_of(row) for row in range(case.batch.num_tokens)]),
        next_ids=held(lambda case: [-100 - b for b in range(len(case.batch.requests))]),
        last_rows=held(lambda case: [start + v - 1 + _moves(case) for start, _, v, _ in _layout(case)]),
        moves=_moves,
    ),
    domain=STEPS,
)
def expanded_eagle_inputs(kernel: Any) -> Callable[..., None]:
    """Runner V1: room for the sampled token and for parallel drafts behind each request's kept tokens."""

    def launch(
        ids_of_rows: Tensor,
        positions: Tensor,
        next_ids: Tensor,
        query_start_loc: Tensor,
        last_rows: Tensor,
        max_query_len: int,
        num_reqs: int,
        num_tokens: int,
        moves: bool,
        new_ids: Tensor,
        new_positions: Tensor,
        is_rejected: Tensor,
        is_masked: Tensor,
        sampled_rows: Tensor,
        hidden_rows: Tensor,
    ) -> None:
        longest = max_query_len + _EXTRA - moves
        tile = min(256, 1 << (longest - 1).bit_length())
        masks = (is_rejected, is_masked)
        outputs = (new_ids, new_positions, *masks, sampled_rows, hidden_rows)
        step = (query_start_loc, last_rows, -5, -7, num_tokens, _EXTRA, moves)
        grid = (num_reqs, -(-longest // tile))
        kernel[grid](ids_of_rows, positions, next_ids, *outputs, *step, BLOCK_SIZE_TOKENS=tile)

    return launch
