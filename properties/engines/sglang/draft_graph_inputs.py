"""EAGLE of several layers: the step of a draft extend, copied into the buffers of its CUDA graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.dialects import Dialect, Input, Output
from cumae.properties.dialects.held import floats, ints
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.known import Known
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.cache_locs import DRAFTED, DRAFTS
from cumae.properties.engines.sglang.engine import ENGINE, stops

Tensor = torch.Tensor
Values = Callable[[Case], list[Any]]
_FILE = "sglang/kernels/ops/speculative/multi_layer_eagle.py"
_FILL, _FRONT, _HIDDEN = 1, 2, 5
"""The length of padded requests, rows in front of a request's tokens, numbers of a hidden state."""


def _live(case: Case) -> int:
    return len(case.batch.requests)


def _most(case: Case) -> int:
    """Return the requests of the largest graph, of which ``num_requests_padded`` are this graph's."""
    return case.num_requests_padded + case.layout.num_spare_rows


def _width(case: Case) -> int:
    return case.batch.requests[0].query_len


def _tokens(case: Case) -> int:
    return _most(case) * _width(case)


def _ids(case: Case) -> list[int]:
    return [1000 + t for t in range(case.batch.num_tokens)]


def _positions(case: Case) -> list[int]:
    return [p for r in case.batch.requests for p in range(r.context_len, r.seq_len)]


def _slots(case: Case) -> list[int]:
    rows = zip(slots_of(case), case.batch.requests, strict=True)
    return [slot for row, request in rows for slot in row[request.context_len :]]


def _of_states(case: Case) -> list[int]:
    return [2 + b for b in range(_live(case))]


def _correct(case: Case) -> list[int]:
    return [b % 3 for b in range(_live(case))]


def _stale(case: Case) -> list[int]:
    return [(b + 1) % 3 for b in range(_most(case))]  # of an earlier step: padded requests keep them


def _accepted(case: Case) -> list[int]:
    return [count + 1 for count in _correct(case)]


def _sampled_rows(case: Case) -> list[int]:
    counts = _correct(case) + _stale(case)[_live(case) : case.num_requests_padded]
    return [b * _width(case) + _FRONT + count for b, count in enumerate(counts)]


def _temperatures(case: Case) -> list[float]:
    return [0.5 * count for count in _accepted(case)]


def _hidden(case: Case) -> Any:
    return np.arange(case.batch.num_tokens * _HIDDEN, dtype=np.int32).reshape(-1, _HIDDEN)


def _has_more(case: Case) -> bool:
    return _live(case) % 2 == 0  # else no temperatures, hidden states and counts of ranks


def _buffer(name: str, dtype: str, rule: str, size: Callable[[Case], int], live: Values, rest: Any) -> Output:
    """Return a buffer with these values in front and ``rest`` behind them."""

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        found = live(inputs.case)
        return found + [rest] * (size(inputs.case) - len(found))

    axis, shape = f"place_of_{name}", lambda case: (size(case),)
    return Output(name, dtype, axis, rule, follows="position_ids", shape=shape, expect=expect)


def _of_tokens(name: str, rule: str, values: Values, padding: Any, rest: Any) -> Output:
    """Return a buffer of tokens, which padded requests of the graph have too."""

    def live(case: Case) -> list[Any]:
        found = values(case)
        return found + [padding] * (case.num_requests_padded * _width(case) - len(found))

    return _buffer(name, "int64", rule, _tokens, live, rest)


def _if_more(values: Values) -> Values:
    return lambda case: values(case) if _has_more(case) else []


def _padded(values: Values, rest: Any) -> Values:
    """Return values of the graph's requests, ``rest`` for padded ones."""
    return lambda case: values(case) + [rest] * (case.num_requests_padded - _live(case))


def _dialect(tail: Any, lens_tail: Any) -> Dialect:
    """Return the dialect; ``tail``: of tokens that nobody reads, ``lens_tail``: of lengths behind the graph.

    No kernel reads ids and positions of padding, but its keys are written to its slots.
    """
    correct = _buffer("correct", "int32", "the correct drafts", _most, _correct, UNTOUCHED)
    lens: Values = lambda case: stops(case).tolist()  # noqa: E731
    of_ranks: Values = lambda case: [case.num_requests_padded * _width(case)] * 3  # noqa: E731
    return having(
        DRAFTED,
        "position_ids",
        _of_tokens("graph_ids", "the ids, 0 on padding", _ids, tail, tail),
        _of_tokens("graph_positions", "the positions, 0 on padding", _positions, tail, tail),
        _of_tokens("graph_slots", "the slots, the dump slot on padding", _slots, 0, tail),
        _buffer("graph_lens", "int32", "the keys, 1 on padding", _most, _padded(lens, _FILL), lens_tail),
        _buffer("graph_rows", "int64", "the rows of the pool", _most, _of_states, UNTOUCHED),
        replace(correct, before=lambda i: ints(_stale(i.case), "int32", "zero")),
        _buffer(
            "accepted", "int32", "accepted tokens, -1 on padding", _most, _padded(_accepted, -1), UNTOUCHED
        ),
        _buffer(
            "sampled_rows", "int64", "the row of the last accepted token", _most, _sampled_rows, UNTOUCHED
        ),
        _buffer(
            "graph_temperatures",
            "fp32",
            "the temperature, 1 on padding",
            _most,
            _if_more(_padded(_temperatures, 1.0)),
            UNTOUCHED,
        ),
        _buffer(
            "graph_hidden",
            "int32",
            "the hidden states",
            lambda case: _tokens(case) * _HIDDEN,
            _if_more(lambda case: _hidden(case).flatten().tolist()),
            UNTOUCHED,
        ),
        _buffer("of_ranks", "int32", "the graph's tokens", lambda _: 3, _if_more(of_ranks), UNTOUCHED),
        _buffer("of_logits", "int32", "the same", lambda _: 3, _if_more(of_ranks), UNTOUCHED),
        ids=lambda case: np.array(_ids(case), dtype=np.int64),
        step_positions=lambda case: np.array(_positions(case), dtype=np.int64),
        slots=lambda case: np.array(_slots(case), dtype=np.int64),
        lens_after=stops,
        rows=lambda case: np.array(_of_states(case), dtype=np.int64),
        num_correct=int32(_correct),
        num_accepted=int32(_accepted),
        temperatures=Input(lambda i: floats(_temperatures(i.case), "fp32", i.case.layout.garbage)),
        hidden=_hidden,
        has_more=_has_more,
        bucket=lambda case: case.num_requests_padded,
    )


_DOMAIN = DRAFTS.having(
    padding="written", max_query_len=64, max_tokens=4096, missing_blocks=False, rowless_requests=False
)


def _filled(function: Any) -> Callable[..., None]:
    def launch(
        ids: Tensor,
        step_positions: Tensor,
        slots: Tensor,
        lens_after: Tensor,
        rows: Tensor,
        num_correct: Tensor,
        num_accepted: Tensor,
        temperatures: Tensor,
        hidden: Tensor,
        has_more: bool,
        bucket: int,
        num_new: int,
        graph_ids: Tensor,
        graph_positions: Tensor,
        graph_slots: Tensor,
        graph_lens: Tensor,
        graph_rows: Tensor,
        correct: Tensor,
        accepted: Tensor,
        sampled_rows: Tensor,
        graph_temperatures: Tensor,
        graph_hidden: Tensor,
        of_ranks: Tensor,
        of_logits: Tensor,
    ) -> None:
        def more(*tensors: Tensor) -> tuple[Tensor | None, ...]:
            return tensors if has_more else (None,) * len(tensors)

        function(
            *(graph_ids, graph_positions, graph_slots, ids, step_positions, slots),
            *(graph_lens, graph_rows, correct, accepted, sampled_rows),
            *more(graph_temperatures.unsqueeze(1)),
            *(lens_after, rows, num_correct, num_accepted),
            *more(temperatures.unsqueeze(1)),
            graph_hidden.view(-1, _HIDDEN),
            *more(hidden, of_ranks, of_logits),
            *(len(rows), bucket, num_new, _FRONT, _FILL),
        )

    return launch


@ENGINE.adapts(
    _FILE,
    "fill_draft_extend_prepare_buffers_triton",
    operation="position_ids",
    dialect=_dialect(0, _FILL),
    domain=_DOMAIN,
)
def draft_graph_inputs(function: Any) -> Callable[..., None]:
    """All buffers of the graph in one launch; those of tokens are cleared behind the step."""
    return _filled(function)


@ENGINE.adapts(
    _FILE,
    "fill_draft_extend_prepare_buffers_native",
    operation="position_ids",
    dialect=_dialect(ANY, ANY),
    domain=_DOMAIN,
    known=Known(
        "sglang-draft_graph_inputs",
        "padded requests keep the slots of an earlier step, to which the graph writes their keys",
        {"padding": "none"},
    ),
)
def draft_graph_inputs_in_torch(function: Any) -> Callable[..., None]:
    """The same in torch, for NPUs."""
    return _filled(function)
