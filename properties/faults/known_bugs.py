"""The collection of known bugs, each searched from cold as a stranger's kernel would be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from cumae.fixtures.bugs import BUGS, Bug
from cumae.oracle import Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolation import LIMIT_SECONDS
from cumae.properties.search.loop import search
from cumae.properties.search.worker import Job, search_apart

EXAMPLES, SECONDS = 300, 60.0
MOST_REQUESTS = 33
"""Of a case: an interpreted kernel with a program for each request costs a millisecond a request."""

Outcome = Literal["caught", "caught by another check", "escaped", "needs a GPU", "needs the interpreter"]
Progress = Callable[[Verdict], None]


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
        tried = self.failure.tried
        steps = tried.steps if isinstance(tried, Trace) else (tried,)
        requests = max(len(step.batch.requests) for step in steps)
        return requests, max(step.num_tokens_padded for step in steps), len(steps)


def chosen(report: str | None) -> list[Bug]:
    """Return the bugs of a report, or all. Raises ``ValueError`` for a report that has none."""
    found = [bug for bug in BUGS if report is None or bug.report.startswith(report)]
    if not found:
        known = ", ".join(dict.fromkeys(bug.report for bug in BUGS))
        raise ValueError(f"--report = {report!r}, must be one of {known}")
    return found


def hunt(
    bug: Bug, device: Device, seed: int = 0, progress: Progress | None = None, examples: int = EXAMPLES
) -> Hunt:
    """Search a bug with every check, without fixtures or saved cases; then reduce what was found."""
    if bug.needs_gpu and device == "cpu":
        return Hunt(bug, "needs a GPU")
    if bug.needs_interpreter and device == "cuda":
        return Hunt(bug, "needs the interpreter")
    budget = Budget(examples=examples, seconds=SECONDS, seed=seed, volume=100)
    if bug.far and device == "cuda":
        job = Job(
            target=bug.target,
            operation=bug.operation,
            dialect=bug.dialect,
            device=device,
            limit=LIMIT_SECONDS,
            budget=budget,
            failures=None,
            cases=(),
        )
        verdict = search_apart(job, progress)
        return _hunted(bug, verdict, verdict.seconds, verdict.failure, 0.0)
    domain = domain_of(bug)
    binding = binding_of(load_function(bug.target), bug.operation, bug.dialect, domain)
    found = search(binding, device, budget, progress=progress, reduce=False, target=bug.target)
    if found.failure is None:
        return _hunted(bug, found, found.seconds, None, 0.0)
    again = search(binding, device, Budget(examples=0), checks=found.checks, first=(found.failure.tried,))
    return _hunted(bug, found, found.seconds, again.failure or found.failure, again.seconds)


def status_of(hunts: Sequence[Hunt]) -> int:
    """Return the exit status of a run: 1 where a bug escaped."""
    return 1 if any(one.outcome == "escaped" for one in hunts) else 0


def domain_of(bug: Bug) -> Domain:
    """Return what a bug's kernel promises; torch's own code allocates, so only GPU bugs are captured."""
    return Domain(**{"captured": bug.needs_gpu, "max_requests": MOST_REQUESTS, **bug.promises})


def _hunted(bug: Bug, found: Verdict, seconds: float, failure: Failure | None, reduce: float) -> Hunt:
    outcome: Outcome = "escaped"
    if failure is not None:
        outcome = "caught" if failure.finding.check == bug.check else "caught by another check"
    return Hunt(bug, outcome, found.cases, seconds, reduce, failure)
