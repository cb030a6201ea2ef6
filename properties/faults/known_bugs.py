"""Search for each known bug from cold, as in a kernel seen for the first time."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from cumae.fixtures.bugs import BUGS, Bug
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.domain import Domain
from cumae.properties.results.failure_file import steps_of
from cumae.properties.results.verdict import Failure, Verdict, failure_of
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import reducing, searchers, searching
from cumae.properties.search.job import Job
from cumae.properties.search.processes import Plan, num_processes

EXAMPLES, SECONDS = 300, 60.0
REDUCE_SECONDS = 20.0
"""Seconds for reducing a bug: it need not be minimal to be recognised."""
MOST_REQUESTS = 33
"""Requests of a case: an interpreted kernel with one program per request takes a millisecond for each."""

Outcome = Literal["caught", "caught by another check", "escaped", "needs a GPU", "needs the interpreter"]
ELSEWHERE: tuple[Outcome, ...] = ("needs a GPU", "needs the interpreter")
"""Outcomes of bugs that need another machine."""
Progress = Callable[[Bug, Verdict], None]


@dataclass(frozen=True, slots=True)
class Hunt:
    """The outcome of a search for a bug: cases and seconds until it was found, and the reduced failure."""

    bug: Bug
    outcome: Outcome
    cases: int = 0
    seconds: float = 0.0
    reduce_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """Requests and tokens of the largest step of the minimal case, and the number of steps."""
        if self.failure is None:
            return 0, 0, 0
        steps = steps_of(self.failure.tried)
        requests = max(len(step.batch.requests) for step in steps)
        return requests, max(step.num_tokens_padded for step in steps), len(steps)


def chosen(report: str | None) -> list[Bug]:
    """Return the bugs of a report, or all. Raises ``ValueError`` for a report without a bug."""
    found = [bug for bug in BUGS if report is None or bug.report.startswith(report)]
    if not found:
        require_choice("--report", report, tuple(dict.fromkeys(bug.report for bug in BUGS)))
    return found


def hunts(
    bugs: Sequence[Bug],
    device: Device,
    seed: int = 0,
    progress: Progress | None = None,
    examples: int = EXAMPLES,
) -> Iterator[tuple[int, Hunt]]:
    """Yield the number and the outcome of each bug as isolated processes finish.

    Each search uses every check, no fixtures or saved cases, and the domain of the bug's kernel. ``progress``
    gets the bug and its verdict so far. Bugs that end a CUDA context come first: they need a new process for
    each smaller case.
    """
    reasons = [_elsewhere(bug, device) for bug in bugs]
    for number, reason in enumerate(reasons):
        if reason is not None:
            yield number, Hunt(bugs[number], reason)
    here = [number for number, reason in enumerate(reasons) if reason is None]
    here.sort(key=lambda number: not bugs[number].far)
    plans = [_hunting(bugs[number], device, seed, progress, examples) for number in here]
    jobs = max(1, min(num_processes(), len(here)))
    num_far = sum(bugs[number].far for number in here) if device == "cuda" else 0
    with searchers(device, jobs=jobs, spares=min(jobs, num_far)) as processes:
        for number, hunt in processes.each(plans):
            yield here[number], hunt


def _elsewhere(bug: Bug, device: Device) -> Outcome | None:
    if bug.needs_gpu and device == "cpu":
        return "needs a GPU"
    return "needs the interpreter" if bug.needs_interpreter and device == "cuda" else None


def _hunting(bug: Bug, device: Device, seed: int, progress: Progress | None, examples: int) -> Plan[Hunt]:
    """Plan the search for a bug, then the reduction of its failure."""
    job = Job(
        target=bug.target,
        operation=bug.operation,
        dialect=bug.dialect,
        domain=domain_of(bug),
        device=device,
        budget=Budget(
            examples=examples, seconds=SECONDS, seed=seed, volume=100, most_shrinking=REDUCE_SECONDS
        ),
        cases=(),
        reduce=False,
    )
    found = yield from searching(job, partial(progress, bug) if progress is not None else None)
    failure, began = found.failure, time.monotonic()
    if failure is not None and failure.finding.ended:
        smaller = yield from reducing(job, failure.finding, failure.tried, seconds=REDUCE_SECONDS)
        failure = failure_of(smaller.finding, smaller.tried, found.cases)
    elif failure is not None:
        budget = Budget(examples=0, most_shrinking=REDUCE_SECONDS)
        again = yield from searching(
            replace(job, cases=(failure.tried,), checks=found.checks, budget=budget, reduce=True)
        )
        failure = again.failure or failure
    return _hunted(bug, found, failure, time.monotonic() - began)


def status_of(hunts: Sequence[Hunt]) -> int:
    """Return the exit status of a run: 1 if a bug escaped."""
    return 1 if any(one.outcome == "escaped" for one in hunts) else 0


def domain_of(bug: Bug) -> Domain:
    """Return the domain of a bug's kernel; torch's own code allocates, so only GPU bugs are captured."""
    return Domain(**{"captured": bug.needs_gpu, "max_requests": MOST_REQUESTS, **bug.promises})


def _hunted(bug: Bug, found: Verdict, failure: Failure | None, reduce_seconds: float) -> Hunt:
    if failure is None:
        return Hunt(bug, "escaped", found.cases, found.seconds)
    outcome: Outcome = "caught" if failure.finding.check == bug.check else "caught by another check"
    return Hunt(bug, outcome, found.cases, found.seconds, reduce_seconds, failure)
