"""Lists of the rows that a token reads in a gathered workspace: rows of selected states, then its window.

Each request of a chunk has equally many rows: those of its states of ``compress_ratio`` tokens, then those of
the tokens that the windows of its new tokens reach. The first request is a chunk of its own.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from cumae.oracle import GARBAGE, Case, Inputs, Request
from cumae.properties.dialects import Dialect, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having

Tensor = torch.Tensor
ALIGNMENT = 128
"""A list's width is a multiple of this one."""
RATIOS = (4, 1, 128)
MOST_SELECTED = (2, 1, 3, 16, 64)
_FEATURES = ("window",)


class Chunk(NamedTuple):
    """The arguments of a launch: outputs and inputs of tokens, inputs of requests, numbers."""

    combined_rows: Tensor
    combined_lens: Tensor
    selected_states: Tensor
    places: Tensor
    starts: Tensor
    seq_lens: Tensor
    gathered_lens: Tensor
    window: int
    ratio: int
    num_selected: int
    request_rows: int
    state_rows: int


def _held(values: Callable[[Case], list[int]]) -> Input:
    return Input(lambda inputs: ints(values(inputs.case), "int32", inputs.case.layout.garbage), _FEATURES)


def _host(value: Callable[[Case], int]) -> Input:
    return Input(lambda inputs: value(inputs.case), _FEATURES)


def ratio_of(case: Case) -> int:
    """Return the tokens of a state, by the number of requests: no options have states and windows at once."""
    return RATIOS[len(case.batch.requests) % len(RATIOS)]


def selected_columns(case: Case) -> int:
    """Return the columns of a selection, by the number of tokens."""
    return MOST_SELECTED[case.batch.num_tokens % len(MOST_SELECTED)]


def topk_of(case: Case) -> int:
    """Return the most states that a token selects: none in layers that see their window alone."""
    return selected_columns(case) if ratio_of(case) > 1 else 0


def _gathered(case: Case, request: Request) -> int:
    """Return the last tokens of a request that its new tokens' windows reach."""
    return min(request.seq_len, request.query_len + case.options.keys.window - 1)


def state_rows(case: Case) -> int:
    """Return the rows of states of each request, one more than any has."""
    return 1 + max((r.seq_len // ratio_of(case) for r in case.batch.requests), default=0)


def request_rows(case: Case) -> int:
    """Return the rows of each request, two more than any needs."""
    tokens = max((_gathered(case, request) for request in case.batch.requests), default=0)
    return state_rows(case) + tokens + 2


def list_width(case: Case) -> int:
    """Return the columns of a list."""
    return -(-(topk_of(case) + case.options.keys.window) // ALIGNMENT) * ALIGNMENT


def _selected(case: Case, position: int, holes: bool) -> list[int]:
    """Return the states that a token selects, the last ones first; with holes some are -1."""
    whole = (position + 1) // ratio_of(case)
    found = [whole - 1 - i for i in range(min(whole, topk_of(case)))]
    return [-1 if holes and i % 5 == 3 else state for i, state in enumerate(found)]


def _tokens(case: Case) -> Iterator[tuple[int, Request, int]]:
    """Yield the number in its chunk, the request and the position of each token."""
    for b, request in enumerate(case.batch.requests):
        for position in range(request.context_len, request.seq_len):
            yield max(b - 1, 0), request, position


def _rows(case: Case, holes: bool) -> list[list[int]]:
    rows = list[list[int]]()
    for b, request, position in _tokens(case):
        first = b * request_rows(case)
        states = [-1 if s < 0 else first + s for s in _selected(case, position, holes)]
        began = request.seq_len - _gathered(case, request)
        window = range(max(position - case.options.keys.window + 1, 0), position + 1)
        rows.append(states + [first + state_rows(case) + p - began for p in window])
    return rows


def with_workspaces(dialect: Dialect, *, holes: bool) -> Dialect:
    """Return a dialect with such lists as outputs of ``window_slots``. ``holes``: a selection may have -1."""

    def selected(inputs: Inputs) -> Ints:
        case = inputs.case
        rows = [_selected(case, position, holes) for _, _, position in _tokens(case)]
        width = selected_columns(case)
        padded = [[*row, *[GARBAGE] * (width - len(row))] for row in rows]
        return ints(padded, "int32", case.layout.garbage, width=width)

    def lists(_: Any, inputs: Inputs) -> list[int]:
        width = list_width(inputs.case)
        return [row for rows in _rows(inputs.case, holes) for row in rows + [-1] * (width - len(rows))]

    return having(
        dialect,
        "window_slots",
        Output(
            "combined_rows",
            "int32",
            "row_of_workspace",
            "the rows of the selected states, then those of the window, then -1",
            follows="window_slots",
            shape=lambda case: (case.batch.num_tokens, list_width(case)),
            expect=lists,
        ),
        Output(
            "combined_lens",
            "int32",
            "token",
            "the entries of its list",
            follows="window_lens",
            shape=lambda case: (case.batch.num_tokens,),
            expect=lambda _, inputs: [len(row) for row in _rows(inputs.case, holes)],
        ),
        selected_states=Input(selected, _FEATURES),
        starts_of_chunk=_held(lambda case: [0, *accumulate(r.query_len for r in case.batch.requests)]),
        lens_of_chunk=_held(lambda case: [r.seq_len for r in case.batch.requests]),
        gathered_lens=_held(lambda case: [_gathered(case, r) for r in case.batch.requests]),
        places=_held(lambda case: [position for _, _, position in _tokens(case)]),
        tokens_of_first=_host(lambda case: case.batch.requests[0].query_len),
        window=_host(lambda case: case.options.keys.window),
        ratio=_host(ratio_of),
        num_selected=_host(topk_of),
        request_rows=_host(request_rows),
        state_rows=_host(state_rows),
    )


def in_chunks(run: Callable[[Chunk], None]) -> Callable[..., None]:
    """Return a launch for the first request and then for the others, whose starts do not begin at 0."""

    def launch(
        combined_rows: Tensor,
        combined_lens: Tensor,
        selected_states: Tensor,
        places: Tensor,
        starts_of_chunk: Tensor,
        lens_of_chunk: Tensor,
        gathered_lens: Tensor,
        tokens_of_first: int,
        window: int,
        ratio: int,
        num_selected: int,
        request_rows: int,
        state_rows: int,
    ) -> None:
        numbers = (window, ratio, num_selected, request_rows, state_rows)
        parts = [
            (slice(tokens_of_first), slice(2), slice(1)),
            (slice(tokens_of_first, None), *[slice(1, None)] * 2),
        ]
        for rows, bounds, requests in parts:
            if len(places[rows]):
                tokens = (combined_rows[rows], combined_lens[rows], selected_states[rows], places[rows])
                lens = (starts_of_chunk[bounds], lens_of_chunk[requests], gathered_lens[requests])
                run(Chunk(*tokens, *lens, *numbers))

    return launch
