"""The collection of known bugs, each searched from cold as a stranger's kernel would be."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from cumae.fixtures.bugs import BUGS, Bug
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
"""In which a bug is made smaller: it need not be minimal to be known again."""
MOST_REQUESTS = 33
"""Of a case: an interpreted kernel with a program for each request costs a millisecond a request."""

Outcome = Literal["caught", "caught by another check", "escaped", "needs a GPU", "needs the interpreter"]
ELSEWHERE: tuple[Outcome, ...] = ("needs a GPU", "needs the interpreter")
"""What becomes of bugs that are to be hunted on another machine."""
Progress = Callable[[Bug, Verdict], None]


@dataclass(frozen=True, slots=True)
class Hunt:
    """What became of a bug: found after so many cases and seconds, then reduced."""

    bug: Bug
    outcome: Outcome
    cases: int = 0
    seconds: float = 0.0
    reduce_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """Requests and tokens of the largest step of the minimal case, and its steps."""
        if self.failure is None:
            return 0, 0, 0
        steps = steps_of(self.failure.tried)
        requests = max(len(step.batch.requests) for step in steps)
        return requests, max(step.num_tokens_padded for step in steps), len(steps)


def chosen(report: str | None) -> list[Bug]:
    """Return the bugs of a report, or all. Raises ``ValueError`` for a report that has none."""
    found = [bug for bug in BUGS if report is None or bug.report.startswith(report)]
    if not found:
        known = ", ".join(dict.fromkeys(bug.report for bug in BUGS))
        raise ValueError(f"--report = {report!r}, must be one of {known}")
    return found


def hunts(
    bugs: Sequence[Bug],
    device: Device,
    seed: int = 0,
    progress: Progress | None = None,
    examples: int = EXAMPLES,
) -> Iterator[tuple[int, Hunt]]:
    """Yield the number of each bug and what became of it, as it comes, from isolated processes.

    Each is searched with every check, without fixtures or saved cases, within what its kernel promises.
    ``progress`` gets the bug and its verdict, which grows. Bugs that end a CUDA context come first: they need
    a new process for each smaller case.
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
    """Plan to search a bug, then to reduce what was found."""
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
    """Return the exit status of a run: 1 where a bug escaped."""
    return 1 if any(one.outcome == "escaped" for one in hunts) else 0


def domain_of(bug: Bug) -> Domain:
    """Return what a bug's kernel promises; torch's own code allocates, so only GPU bugs are captured."""
    return Domain(**{"captured": bug.needs_gpu, "max_requests": MOST_REQUESTS, **bug.promises})


def _hunted(bug: Bug, found: Verdict, failure: Failure | None, reduce_seconds: float) -> Hunt:
    if failure is None:
        return Hunt(bug, "escaped", found.cases, found.seconds)
    outcome: Outcome = "caught" if failure.finding.check == bug.check else "caught by another check"
    return Hunt(bug, outcome, found.cases, found.seconds, reduce_seconds, failure)
