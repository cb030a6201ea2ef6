"""A search of a suspicious kernel in a process of its own: a crash or a hang is a failure with its case."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from pathlib import Path

from cumae.oracle import Case, Trace, tried_from_json, tried_to_json
from cumae.properties.cases.reducer import is_smaller
from cumae.properties.results.failure_file import kept, load_failure
from cumae.properties.results.verdict import Finding, Verdict, failure_of
from cumae.properties.running.device import Device
from cumae.properties.running.sanitizer import sanitizer_of
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolation import Json, Outcome, run_apart

MOST_TRIES = 30
MOST_SKIPPED = 6
RETURNS = "a valid case neither ends the process nor takes for ever"
COUNTED = (
    *("cases", "comparisons", "not_promised", "seconds", "shapes", "checks"),
    *("domain", "cut", "left_out", "not_tried"),
)
"""Fields of its verdict that a process notes before each check."""
_MODULE = "cumae.properties.search.worker_child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do, as plain data.

    ``cases``: what is tried first, or None for saved failures and fixtures. ``reducing``: whether
    the one case is brought down; ``deaths``: whether only a candidate that ends the process counts;
    ``skipped``: candidates left out; ``sanitizer``: what the process runs under, "" for nothing.
    ``path``: where modules are looked for, first of all.
    """

    target: str
    operation: str
    dialect: str = "cumae"
    device: Device
    limit: float
    budget: Budget
    failures: Path | None = None
    checks: tuple[str, ...] | None = None
    cases: tuple[Case | Trace, ...] | None = None
    large: bool = False
    reduce: bool = True
    reducing: bool = False
    deaths: bool = False
    skipped: tuple[Case | Trace, ...] = ()
    sanitizer: str = ""
    path: tuple[str, ...] = ()


def ended(message: str) -> bool:
    """Whether a finding's message says that the case ended or lost its process."""
    return message.startswith(("the process ", "did not return")) or "context is lost" in message


def search_apart(job: Job, progress: Callable[[Verdict], None] | None = None) -> Verdict:
    """Return the verdict of a search in a process of its own.

    Where the process dies or a case takes longer than the limit, that case is the failure; it is
    saved, then reduced in at most 30 further processes. ``progress`` gets the verdict at once and
    as it grows. Raises ``ValueError`` where the target cannot be tried at all.
    """
    verdict = Verdict(job.target, job.operation, job.dialect, job.checks or ())
    if progress is not None:
        progress(verdict)

    def seen(state: Json) -> None:
        _count(verdict, state)
        if progress is not None:
            progress(verdict)

    outcome = _run(job, seen)
    lost = False
    if outcome.result is not None:
        found, lost = _verdict_from(outcome.result), bool(outcome.result["lost"])
        for field in fields(Verdict):
            setattr(verdict, field.name, getattr(found, field.name))
    else:
        _count(verdict, outcome.state)
        finding, tried = _of_the_case_run(outcome, job)
        finding = replace(finding, sanitizer=job.sanitizer)
        verdict.failure = failure_of(finding, tried, verdict.cases)
        _save(job, verdict)
        lost = True
    if lost and job.reduce and verdict.failure is not None:
        known = verdict.failure
        began, seconds = time.monotonic(), job.budget.shrink_seconds(verdict.seconds)
        finding, tried, _ = reduce_apart(job, known.finding, known.tried, deaths=True, seconds=seconds)
        took = time.monotonic() - began
        smaller = failure_of(finding, tried, known.found_after)
        verdict.failure = replace(smaller, stopped=f"{seconds:.0f} s were up" if took >= seconds else "")
        verdict.spent["reducing"] = verdict.spent.get("reducing", 0.0) + took
        verdict.seconds += took
        _save(job, verdict)
    if outcome.told and verdict.failure is not None:
        finding = verdict.failure.finding
        told = replace(finding, message=f"{finding.message}; {outcome.told}")
        verdict.failure = replace(verdict.failure, finding=told)
        _save(job, verdict)
    if progress is not None:
        progress(verdict)
    return verdict


def reduce_apart(
    job: Job,
    finding: Finding,
    case: Case | Trace,
    *,
    deaths: bool,
    progress: Callable[[int], None] | None = None,
    seconds: float = inf,
) -> tuple[Finding, Case | Trace, int]:
    """Return what the smallest case or trace that still fails the check shows, itself, and the steps.

    ``deaths``: the case ends its process, and so must a smaller one, in at most 30 processes;
    else one that does is left out, at most 6 times. After ``seconds`` no further case is tried.
    """
    late_at = time.monotonic() + seconds
    job = replace(job, reducing=True, deaths=deaths, checks=(finding.check,), large=False)
    steps = 0

    def seen(state: Json) -> None:
        if progress is not None:
            progress(steps + int(state.get("steps", 0)))

    for _ in range(MOST_TRIES if deaths else MOST_SKIPPED):
        left = None if seconds == inf else max(0.0, late_at - time.monotonic())
        outcome = _run(replace(job, cases=(case,), budget=Budget(seconds=left)), seen)
        steps += int((outcome.result or outcome.state).get("steps", 0))
        if outcome.result is not None and not outcome.result["lost"]:
            if outcome.result["best"] is not None:
                finding, case = _best(outcome.result["best"])
            break
        if outcome.state.get("best"):
            finding, case = _best(outcome.state["best"])
        if outcome.case is None or not is_smaller(outcome.case, case):
            break
        if deaths and outcome.running is None:
            case, finding = outcome.case, _death(outcome)
        else:
            job = replace(job, skipped=(*job.skipped, outcome.case))
        if time.monotonic() > late_at:
            break
    return finding, case, steps


def _run(job: Job, seen: Callable[[Json], None]) -> Outcome:
    plain: Json = {
        **asdict(replace(job, cases=None, skipped=(), budget=Budget())),
        "failures": None if job.failures is None else str(job.failures),
        "budget": asdict(job.budget),
        "cases": None if job.cases is None else [tried_to_json(case) for case in job.cases],
        "skipped": [tried_to_json(case) for case in job.skipped],
    }
    sanitizer = sanitizer_of(job.sanitizer, job.device)
    outcome = run_apart(_MODULE, plain, job.limit, seen, sanitizer)
    if outcome.result is not None and "refused" in outcome.result:
        raise ValueError(outcome.result["refused"])
    if outcome.result is not None and "error" in outcome.result:
        raise RuntimeError(outcome.result["error"])
    return outcome


def _death(outcome: Outcome) -> Finding:
    if outcome.result is not None:
        return _finding_from(outcome.result["finding"])
    said = f"{outcome.reason}, {outcome.because}" if outcome.because else outcome.reason
    return Finding(str(outcome.state.get("check", "")), said, RETURNS)


def _of_the_case_run(outcome: Outcome, job: Job) -> tuple[Finding, Case | Trace]:
    """Return what a process died of: the case that was called on, where that ends another process, too.

    A check also calls on cases that it makes from its own.
    """
    finding, tried = _death(outcome), _case_of(outcome, job)
    if outcome.running is None:
        return finding, tried
    known = outcome.state.get("checks", job.checks or ())
    checks = tuple(check for check in dict.fromkeys(("agrees", finding.check)) if check in known)
    alone: Job = replace(job, cases=(outcome.running,), checks=checks, large=False, reduce=False)
    second = _run(replace(alone, budget=Budget(examples=0), failures=None), lambda state: None)
    if second.result is None and second.running is None and second.case is not None:
        return _death(second), second.case
    return finding, tried


def _case_of(outcome: Outcome, job: Job) -> Case | Trace:
    """Return the case that was running. Raises ``ValueError`` where the process died before the first."""
    if outcome.case is None:
        raise ValueError(f"target = {job.target!r}, must be importable: {outcome.reason}")
    return outcome.case


def _count(verdict: Verdict, state: Json) -> None:
    for name in COUNTED:
        value = state.get(name, getattr(verdict, name))
        setattr(verdict, name, tuple(value) if isinstance(value, list) else value)
    if state.get("file") and verdict.failure is None:
        file = Path(state["file"])
        saved = load_failure(file)
        verdict.failure = failure_of(saved.finding, saved.tried, verdict.cases, file)


def _save(job: Job, verdict: Verdict) -> None:
    if job.failures is not None and verdict.failure is not None:
        verdict.failure = kept(job.failures, verdict, verdict.failure)


def _verdict_from(result: Json) -> Verdict:
    failure = result["failure"]
    values = {field.name: result[field.name] for field in fields(Verdict)}
    if failure is not None:
        file = None if failure["file"] is None else Path(failure["file"])
        finding = _finding_from(failure["finding"])
        tried = tried_from_json(failure["case"])
        found = failure_of(finding, tried, failure["found_after"], file)
        values["failure"] = replace(found, stopped=failure["stopped"])
    lists = {name: tuple(result[name]) for name in ("checks", "hidden", "slowest")}
    return Verdict(**{**values, **lists})


def _best(values: Json) -> tuple[Finding, Case | Trace]:
    return _finding_from(values["finding"]), tried_from_json(values["case"])


def _finding_from(values: Json) -> Finding:
    plain: Json = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return Finding(**plain)
