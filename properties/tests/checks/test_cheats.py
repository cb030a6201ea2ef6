"""Each cheat is caught by the check that is there for it; what is out of reach is so, and said to be."""

from inspect import isgeneratorfunction

import numpy as np
import pytest

from cumae import oracle
from cumae.fixtures.cheats import CHEATS, Cheat
from cumae.oracle.page_write import page_units
from cumae.properties.checks import CHECKS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.running.integrity import oracles_shut, tampering
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
RUNNABLE = [cheat for cheat in CHEATS if DEVICE == "cuda" or not cheat.needs_gpu]
ON_THE_HOST = [cheat for cheat in CHEATS if cheat.needs_gpu and "stream" not in cheat.name]
TOLD = {
    "asks_the_oracle": "the kernel raised RuntimeError: the function under test called an oracle",
    "rewrites_the_oracle": "the function replaced `cumae.oracle.position_ids.position_ids`",
    "replaces_the_comparison": "the function replaced `numpy.asarray`",
    "replaces_the_checks": "the function replaced `cumae.properties.checks.CHECKS.agrees`",
    "returns_what_equals_everything": "returned _Agreeable, must be position_ids: a plain tensor, ",
    "leaves_the_test": "the kernel raised SystemExit: 0",
    "skips_the_test": "the kernel raised Skipped: this machine is not supported",
}


def verdict_on(cheat: Cheat, checks: list[str], examples: int = 60) -> Verdict:
    binding = binding_of(load_function(cheat.target), cheat.operation)
    budget = Budget(examples=examples, seed=5, volume=100)
    return search(binding, DEVICE, budget, checks=checks, reduce=False)


@pytest.mark.parametrize("cheat", RUNNABLE, ids=lambda cheat: f"{cheat.name}-{cheat.check}")
def test_a_cheat_is_caught_by_its_check(cheat: Cheat) -> None:
    verdict = verdict_on(cheat, [cheat.check])
    assert verdict.failure is not None
    assert TOLD.get(cheat.name, "") in verdict.failure.finding.message
    assert tampering() == ""


@pytest.mark.parametrize("cheat", ON_THE_HOST, ids=lambda cheat: cheat.name)
def test_a_right_answer_from_the_host_is_out_of_reach_on_the_cpu(cheat: Cheat) -> None:
    if DEVICE == "cuda":
        pytest.skip("a GPU shows it")
    assert verdict_on(cheat, ["agrees", "writes_everything", "forgets_history"], examples=10).ok


def test_an_oracle_rewritten_by_an_import_is_told() -> None:
    assert tampering() == ""
    load_function("cumae.fixtures.cheats.at_import:answers_zero")
    assert tampering() == "cumae.oracle.position_ids.position_ids"


def test_the_oracles_are_shut_while_a_function_runs_and_open_after() -> None:
    with oracles_shut(), pytest.raises(RuntimeError, match="the function under test called an oracle"):
        oracle.position_ids([1], [2], 3)
    with oracles_shut(), pytest.raises(RuntimeError, match="the function under test called an oracle"):
        next(page_units("NHD", 1, 1, 1, 1, 1))
    assert oracle.position_ids([1], [2], 3).position_ids == [1, 2, 0]


def test_a_shut_generator_is_still_one_which_python_3_13_demands() -> None:
    assert isgeneratorfunction(page_units)
    with oracles_shut():
        assert isgeneratorfunction(page_units)


def test_what_was_replaced_is_named_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ones, agrees = np.ones, CHECKS["agrees"]
    monkeypatch.setattr(np, "ones", np.zeros)
    monkeypatch.setitem(CHECKS, "agrees", CHECKS["keeps_facts"])
    assert tampering() == "numpy.ones"
    assert tampering() == ""
    assert np.ones is ones
    assert CHECKS["agrees"] is agrees
