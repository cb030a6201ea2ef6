"""How many programs the linter expects of the largest step that a domain promises."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.lint.counts import MOST_TOKENS, counting_cases, most_programs
from cumae.properties.lint.launches import Launch
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function


def launch(*grid: int) -> Launch:
    empty: Mapping[str, Any] = {}
    return Launch(SimpleNamespace(__name__="kernel"), empty, empty, empty, (), (*grid,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("promises", "times"),
    [
        ({}, MOST_TOKENS // 4),
        ({"max_tokens": 4096}, MOST_TOKENS // 4),
        ({"max_tokens": 4096, "max_requests": 64}, 4096 // 8),
        ({"max_tokens": 8, "max_requests": 4}, 1),
    ],
)
def test_a_grid_grows_in_proportion_up_to_the_promised_step(promises: dict[str, int], times: int) -> None:
    case = Case(Batch(tuple(Request(0, 2, (b,)) for b in range(4)), 16))
    small = Case(Batch((Request(0, 1, (1,)),), 16))
    recorded = [(Domain(**promises), small, [launch(1, 9, 1)]), (Domain(**promises), case, [launch(4, 2, 1)])]
    assert most_programs(recorded) == {"kernel": (4 * times, 2 * times, times)}


def test_a_kernel_of_two_functions_has_the_most_programs_of_either() -> None:
    case = Case(Batch((Request(0, 2, (1,)),), 16))
    few, many = Domain(max_tokens=2, max_requests=1), Domain(max_tokens=20, max_requests=1)
    assert most_programs([(many, case, [launch(1, 1, 1)]), (few, case, [launch(3, 1, 1)])]) == {
        "kernel": (10, 10, 10)
    }


@pytest.mark.parametrize("promises", [{}, {"min_requests": 1, "empty_requests": False, "padding": "none"}])
def test_steps_without_cached_tokens_are_counted(promises: dict[str, Any]) -> None:
    domain = Domain(max_context_len=0, captured=False, **promises)
    function = load_function("cumae.gpu_impl:write_position_ids")
    cases = list(counting_cases(binding_of(function, "position_ids", domain=domain)))
    assert max(case.batch.num_tokens for case in cases) == 5000
    assert all(case.batch.num_tokens for case in cases) == bool(promises)
