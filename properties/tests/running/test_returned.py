"""Values that a function returns: what is no tensor is told, and is no error of the suite."""

import re
from typing import Any

import pytest
import torch

from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

DEVICE = prepare("auto")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (3.5, "float"),
        ("ab", "str"),
        (lambda: 1, "function"),
        ((one for one in [torch.zeros(3)]), "generator"),
        ({4, 5}, "set"),
        ([torch.zeros(3), torch.zeros(3)], "list of 2 (Tensor)"),
    ],
)
def test_what_is_no_output_is_told_by_its_type(answer: Any, told: str) -> None:
    def positions(context_lens: torch.Tensor) -> Any:
        return answer

    verdict = check(positions, "position_ids", examples=3, save_to=None)
    assert verdict.failure is not None
    must = "must be position_ids: a plain tensor, an int or a list of ints each"
    if told == "NoneType":
        must += "; one that is a parameter instead is a buffer to write to"
    assert verdict.failure.finding.message == f"the kernel returned {told}, {must}"
    assert verdict.failure.finding.rule.startswith("a function must return the outputs")


def test_a_function_with_some_of_the_outputs_is_told_to_name_them() -> None:
    def lens(query_start_loc: torch.Tensor) -> torch.Tensor:
        return query_start_loc.diff()

    verdict = check(lens, "flat_decodes", dialect="vllm", examples=3, save_to=None)
    assert verdict.failure is not None
    message = verdict.failure.finding.message
    names = re.search(r"must be (\w+), \w+", message)
    assert message.startswith("the kernel returned Tensor, must be ") and names is not None
    assert message.endswith(f"; to judge only some of them, return them by name: {{{names[1]!r}: …}}"), (
        message
    )
