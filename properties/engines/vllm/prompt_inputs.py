"""The ids of each chunk of a step, and those that follow it in its prompt."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs, Request
from cumae.properties.dialects import Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, STARTS, STEPS

Tensor = torch.Tensor
LOOKAHEAD = 3
"""Ids behind a chunk that are kept for each state; no power of two, as the kernel's tile is."""
LATEST_END = 4
"""Tokens of a prompt behind a chunk, at most."""
LONGEST = 4_096
FAR = 2 * LONGEST + 11
"""More than a prompt has tokens, so that no two states have the same ids."""


def falling_rows(case: Case) -> list[int]:
    """Return the state row of each request, in falling order; every other row belongs to none."""
    count = len(case.batch.requests)
    return [2 * (count - b) - 1 for b in range(count)]


def _prompt_len(b: int, request: Request) -> int:
    """Return the length of a prompt: decodes are behind it, and chunks end up to four tokens before it."""
    return (
        request.context_len - b % 2 if request.phase == "decode" else request.seq_len + b % (LATEST_END + 1)
    )


def _of_states(value: Callable[[int, Request], int]) -> Callable[[Case], Any]:
    """Return a number for each state, 0 for a state of no request."""

    def held(case: Case) -> Any:
        found = np.zeros(2 * len(case.batch.requests), dtype=np.int32)
        for b, (row, request) in enumerate(zip(falling_rows(case), case.batch.requests, strict=True)):
            found[row] = value(b, request)
        return found

    return held


def _is_chunk(b: int, request: Request) -> bool:
    return _prompt_len(b, request) > request.context_len


def _ids_of_tokens(_: Any, inputs: Inputs) -> list[Any]:
    case, found = inputs.case, list[Any]()
    for b, (row, request) in enumerate(zip(falling_rows(case), case.batch.requests, strict=True)):
        first = FAR * row + request.context_len
        ids = range(first, first + request.query_len)
        found += ids if _is_chunk(b, request) else [UNTOUCHED] * request.query_len
    return found + [UNTOUCHED] * (case.num_tokens_padded - len(found))


def _ids_behind(_: Any, inputs: Inputs) -> list[Any]:
    case = inputs.case
    found: list[list[Any]] = [[UNTOUCHED] * (2 * len(case.batch.requests)) for _ in range(LOOKAHEAD)]
    for b, (row, request) in enumerate(zip(falling_rows(case), case.batch.requests, strict=True)):
        for ahead in range(LOOKAHEAD if _is_chunk(b, request) else 0):
            position = request.seq_len + ahead
            found[ahead][row] = FAR * row + position if position < _prompt_len(b, request) else 0
    return [one for ids in found for one in ids]


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "prepare_prefill_inputs",
    operation="position_ids",
    dialect=having(
        STARTS,
        "position_ids",
        Output(
            "ids_of_tokens",
            "int32",
            "token",
            "the ids of chunks; those of other requests keep their values",
            follows="position_ids",
            expect=_ids_of_tokens,
        ),
        Output(
            "ids_behind",
            "int32",
            "state",
            "the ids that follow a chunk, 0 behind its prompt; other states keep their values",
            follows="position_ids",
            shape=lambda case: (LOOKAHEAD, 2 * len(case.batch.requests)),
            expect=_ids_behind,
        ),
        idx_mapping=lambda case: np.array(falling_rows(case), dtype=np.int32),
        computed_of_states=_of_states(lambda _, request: request.context_len),
        prompts_of_states=_of_states(_prompt_len),
    ),
    domain=STEPS.having(padding="untouched", max_context_len=LONGEST, max_query_len=LONGEST),
)
def prefill_inputs(function: Any) -> Callable[..., None]:
    """Runner V2: the ids of each chunk, and the next ones of its prompt."""

    def launch(
        idx_mapping: Tensor,
        query_start_loc: Tensor,
        prompts_of_states: Tensor,
        computed_of_states: Tensor,
        max_seq_len: int,
        ids_of_tokens: Tensor,
        ids_behind: Tensor,
    ) -> None:
        states, positions = (
            torch.arange(count, dtype=torch.int32, device=ids_behind.device)
            for count in (len(prompts_of_states), max_seq_len + LATEST_END)
        )
        prompts = (FAR * states[:, None] + positions, prompts_of_states)
        function(ids_of_tokens, ids_behind, idx_mapping, query_start_loc, *prompts, computed_of_states)

    return launch
