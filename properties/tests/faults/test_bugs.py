"""Each bug of a real engine is caught from cold by the check that is there for it, and for its fault."""

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cumae.fixtures.bugs import BUGS, OUT_OF_REACH, Bug
from cumae.properties.commands.usage.bugs import bugs
from cumae.properties.faults.known_bugs import Hunt, chosen, domain_of, hunts, status_of
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.findings import device_lost
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
SHOWN = [bug for bug in BUGS if not (bug.needs_gpu if DEVICE == "cpu" else bug.needs_interpreter or bug.far)]

REDUCED = (
    "positions_from_zero",
    "keys_of_new_tokens_only",
    "padding_from_padded_count",
    "key_offsets_as_rows",
    "block_size_of_the_wrong_object",
    "empty_splits_counted",
    "EmptyBuffers",
    "ScheduleOfTheCapture",
    "weights_of_biased_scores",
)
"""One of each operation."""
SAME_REPAIRED = (
    "loads_of_zero",
    "page_times_stride_unsigned",
    "slot_times_row",
    "stores_dropped",
    "width_by_element_count",
)
"""Without its fault each of these is the gather that ``block_times_stride`` is without its own."""


def mended(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same code without its fault."""
    if inspect.isclass(function):
        return type(function.__name__, (function,), {"wrong": False, "__module__": function.__module__})
    return update_wrapper(partial(function, wrong=False), function)


def verdict_on(bug: Bug, function: Callable[..., Any], budget: Budget, *, reduce: bool) -> Verdict:
    binding = binding_of(function, bug.operation, bug.dialect, domain_of(bug))
    return search(binding, DEVICE, budget, checks=[bug.check], reduce=reduce)


@pytest.mark.parametrize("bug", SHOWN, ids=lambda bug: bug.name)
def test_a_bug_is_caught_by_the_check_that_is_there_for_it(bug: Bug) -> None:
    budget = Budget(examples=300, seconds=60, seed=1, volume=100)
    verdict = verdict_on(bug, load_function(bug.target), budget, reduce=bug.name in REDUCED)
    assert verdict.failure is not None
    assert not device_lost(DEVICE), "a bug that ends a CUDA context is marked far"
    if bug.name in REDUCED:
        requests, tokens, steps = Hunt(bug, "caught", failure=verdict.failure).size
        assert requests <= 2
        assert tokens <= 4
        assert steps <= 2


@pytest.mark.parametrize(
    "bug", [bug for bug in SHOWN if bug.name not in SAME_REPAIRED], ids=lambda bug: bug.name
)
def test_the_same_code_without_the_fault_agrees(bug: Bug) -> None:
    budget = Budget(examples=12, seed=1, volume=100)
    verdict = verdict_on(bug, mended(load_function(bug.target)), budget, reduce=False)
    assert verdict.ok and verdict.cases >= 12, verdict


def test_every_bug_says_what_is_wrong_and_stands_once() -> None:
    for bug in BUGS:
        assert load_function(bug.target).__doc__, bug
    assert len({bug.target for bug in BUGS}) == len(BUGS) >= 36
    assert all(OUT_OF_REACH.values())


def test_a_search_with_every_check_names_what_caught_it() -> None:
    (bug,) = chosen("FastDeploy#7598")
    ((_, found),) = hunts([bug], DEVICE)
    assert found.outcome == "caught"
    assert found.size == (1, 1, 1)
    assert found.cases >= 1


def test_an_unknown_report_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--report = 'vllm#0'.*, must be one of 'FastDeploy#7727', "):
        chosen("vllm#0")


def test_the_command_writes_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "bugs.json"
    told = CliRunner().invoke(
        bugs, ["--report", "FastDeploy#8065", "--json", str(file)], standalone_mode=False
    )
    assert told.return_value == 0, told.output
    assert "1 of 1 bug caught" in told.output
    (record,) = json.loads(file.read_text())["bugs"]
    assert record["check"] == record["expected"] == "agrees"
    assert record["minimal"]["requests"] == 1


def test_a_bug_that_escapes_is_a_failure() -> None:
    (bug,) = chosen("FastDeploy#8065")
    hidden = replace(bug, promises={"phases": ("decode",)})
    ((_, escaped),) = hunts([hidden], DEVICE, examples=2)
    assert escaped.outcome == "escaped"
    assert status_of([escaped]) == 1
    assert status_of([Hunt(bug, "caught"), Hunt(bug, "needs a GPU")]) == 0
