"""A guess at why a selection, its slots or the chunks of a context are wrong."""

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Any

import pytest
import torch

from cumae.oracle import Batch, Case, Inputs, Options, Request
from cumae.properties.dialects import DIALECTS, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare
from cumae.properties.tests.helpers.guessed import cause_of

DEVICE = prepare("auto")


def writing(output: str, values: list[Any], *names: str) -> Callable[..., Any]:
    """Return a function that names what a case may vary and writes these values into an output."""

    def write(**given: Any) -> None:
        given[output].copy_(torch.tensor(values))

    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in (*names, output)]
    vars(write)["__signature__"] = Signature(parameters)
    return write


def answer_of(operation: str, case: Case, replaced: dict[str, Any]) -> Any:
    inputs, ask = Inputs(case), OPERATIONS[operation].oracle
    return ask(**{name: replaced.get(name, inputs[name]) for name in signature(ask).parameters})


SELECTING = Case(
    Batch((Request(5, 2, (4, 1)), Request(4, 1, (9, 3)), Request(6, 1, (7, 2))), 4),
    options=Options.of(topk=3),
)
# Its last token selects none first, and the one before it a position that no request has.
GAPS = Case(Batch((Request(0, 3, (7,)),), 4), options=Options.of(topk=4))
# The token of request 1 has two keys, and so selects none in its third place.
FEW_KEYS = Case(Batch((Request(5, 2, (4, 1)), Request(1, 1, (9,))), 4), options=Options.of(topk=3))
GATHERING = replace(SELECTING, options=Options.of(topk=3, prefill_workspace=True))
WITH_CHUNKS = Case(
    Batch((Request(7, 1, (5, 2, 6, 1)), Request(0, 2, (7,)), Request(3, 1, (4, 8))), 2),
    options=Options.of(chunk_blocks=2, workspace_slack=3),
)


class TestCausesOfSelectionsAndChunks:
    @pytest.mark.parametrize(
        ("cause", "case", "replaced"),
        [
            (
                "neighbour: the table row of the request before",
                SELECTING,
                {"token_to_request": [0, 0, 0, 1]},
            ),
            ("neighbour: the table row of the request after", SELECTING, {"token_to_request": [1, 1, 2, 2]}),
            (
                "neighbour: the table row of request 0 for all",
                SELECTING,
                {"token_to_request": [0, 0, 0, 0]},
            ),
            ("block size 16 is used instead of 4", SELECTING, {"block_size": 16}),
            ("the start in the workspace is left out", GATHERING, {"workspace_starts": [0, 0, 0]}),
            (
                "tokens read the cache, not the workspace",
                GATHERING,
                {"workspace_ids": None, "workspace_starts": None},
            ),
        ],
    )
    def test_a_slot_looked_up_elsewhere(self, cause: str, case: Case, replaced: dict[str, Any]) -> None:
        wrong_slots = answer_of("topk_to_slots", case, replaced).selected_slots
        function = writing("selected_slots", wrong_slots, "selected_positions", "workspace_ids")
        assert cause_of(function, "topk_to_slots", case) == cause

    @pytest.mark.parametrize(
        ("dialect", "selected", "output"),
        [
            ("cumae", "selected_positions", "selected_slots"),
            ("vllm", "token_indices", "out"),
            ("sglang", "topk_indices", "result"),
        ],
    )
    @pytest.mark.parametrize("case", [FEW_KEYS, GAPS])
    def test_none_that_is_looked_up(self, case: Case, dialect: str, selected: str, output: str) -> None:
        held = DIALECTS[dialect].inputs[selected].hold(Inputs(case))
        assert isinstance(held, Ints)
        looked_up = {"selected_positions": held.values.clip(min=0).tolist()}
        slots = torch.tensor(answer_of("topk_to_slots", case, looked_up).selected_slots)
        shape = slots.shape if dialect == "cumae" else held.shape
        function = writing(output, slots.reshape(shape).tolist(), selected)
        cause = "-1 (no position) is looked up as position 0"
        assert cause_of(function, "topk_to_slots", case, dialect) == cause

    @pytest.mark.parametrize(
        ("cause", "replaced"),
        [
            (
                "the workspace is divided among all requests, not only those with context",
                {"workspace_tokens": 11 // 3 * 2},
            ),
            ("a chunk ends inside a block", {"block_size": 1}),
        ],
    )
    def test_chunks_of_another_length(self, cause: str, replaced: dict[str, Any]) -> None:
        lens = answer_of("chunked_context", WITH_CHUNKS, replaced).chunk_lens[:6]
        function = writing("chunk_lens", lens, "workspace_tokens")
        assert cause_of(function, "chunked_context", WITH_CHUNKS) == cause
