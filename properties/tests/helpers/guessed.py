"""Guesses about a wrong answer."""

from collections.abc import Callable
from typing import Any

from cumae.fixtures.bugs import BUGS
from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import Trial
from cumae.properties.comparing.compare import wrong_extent, wrong_values
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
REQUESTS = (
    Request(3, 2, (4, 1), "prefill"),
    Request(5, 1, (7, 2), "decode"),
    Request(9, 3, (11, 12, 13), "prefill"),
)
CASE = Case(Batch(REQUESTS, 4))
BUG = {bug.target.rpartition(":")[2]: bug for bug in BUGS}


def finding_of(binding: Binding, case: Case) -> Finding | None:
    """Return what ``agrees`` or ``writes_everything`` finds, the case at hand for a cause."""
    trial = Trial(binding, case, DEVICE)
    first, ran = trial.first, trial.quiet.case
    found = wrong_values("agrees", binding, first, trial.expected, ran)
    return found or wrong_extent("writes_everything", binding, first, trial.second, trial.expected, ran)


def cause_of(function: Callable[..., Any], operation: str, case: Case = CASE, dialect: str = "cumae") -> str:
    finding = finding_of(binding_of(function, operation, dialect), case)
    assert finding is not None
    return finding.cause
