"""Searches in isolated processes: a crash or a hang of a kernel is a failure with its case."""

import time
from collections.abc import Callable
from dataclasses import fields, replace
from math import inf
from typing import NamedTuple

from cumae.oracle import Case, Trace
from cumae.properties.cases.trace_reducer import is_smaller
from cumae.properties.results.failure_file import save_or_note
from cumae.properties.results.verdict import Failure, Finding, Verdict, failure_of
from cumae.properties.running.device import Device
from cumae.properties.running.machine import device_name, versions
from cumae.properties.running.sanitizer import sanitizer_of
from cumae.properties.search.budget import Budget
from cumae.properties.search.database import Shared, shared_at
from cumae.properties.search.job import RETURNS, Best, Job, Reduced, Reduction
from cumae.properties.search.process import Answer, Call, State
from cumae.properties.search.processes import Plan, Processes

MOST_TRIES = 30
MOST_SKIPPED = 6


class Smallest(NamedTuple):
    """The smallest failing case or trace found in ``steps`` steps, and its finding."""

    finding: Finding
    tried: Case | Trace
    steps: int


def searchers(
    device: Device, *, sanitizer: str = "", jobs: int = 1, spares: int = 0, alone: bool = False
) -> Processes:
    """Return processes that search. ``sanitizer``: its name, "" for none; the rest as for ``Processes``."""
    worker = "cumae.properties.search.child_search:Searcher"
    tool = sanitizer_of(sanitizer, device)
    # Known before a process begins, so that it can begin with Triton imported.
    mode = {"TRITON_INTERPRET": "1"} if device == "cpu" else None
    return Processes(worker, device, jobs=jobs, spares=spares, sanitizer=tool, alone=alone, environment=mode)


def search_isolated(job: Job, progress: Callable[[Verdict], None] | None = None) -> Verdict:
    """Return the verdict of a search in an isolated process; see ``searching``."""
    with searchers(job.device, sanitizer=job.sanitizer) as processes:
        return processes.run(searching(job, progress))


def reduce_isolated(
    job: Job, finding: Finding, tried: Case | Trace, progress: Callable[[int, Best], None] | None = None
) -> Smallest:
    """Return the smallest case or trace that still fails; see ``reducing``."""
    with searchers(job.device, sanitizer=job.sanitizer) as processes:
        return processes.run(reducing(job, finding, tried, progress=progress))


def searching(job: Job, progress: Callable[[Verdict], None] | None = None) -> Plan[Verdict]:
    """Plan a search in an isolated process.

    If the process dies or a case takes longer than the limit, that case is the failure; it is saved,
    then reduced in at most 30 further processes. ``progress`` gets the verdict at once and as it grows.
    Raises ``ValueError`` if the target cannot be tried at all.
    """
    verdict = Verdict(job.target, job.operation, job.dialect, job.checks or (), part=job.part)
    verdict.promised = job.promised
    shared = shared_at(job.database)
    # The function under test cannot break a connection that its process does not have.
    job = replace(job, database="", shared=_fetched(job, shared))
    # Only the process may ask a GPU for its name.
    verdict.versions = versions(device_name("cpu") if job.device == "cpu" else "a GPU")
    if progress is not None:
        progress(verdict)

    def seen(told: State) -> None:
        known = verdict.failure
        _take(verdict, told.get("verdict", verdict), told.get("failure", verdict.failure))
        if shared is not None and verdict.failure is not None and verdict.failure is not known:
            shared.keep(verdict, verdict.failure)
        if progress is not None:
            progress(verdict)

    answer = yield Call("search", job, job.limit, seen=seen)
    if answer.death:
        finding, tried = yield from _of_the_case_run(answer, job)
        finding = replace(finding, sanitizer=job.sanitizer)
        verdict.failure = failure_of(finding, tried, verdict.cases)
        _save(job, verdict)
    else:
        _take(verdict, answer.result, answer.result.failure)
    verdict.printed = answer.printed
    if answer.is_lost and job.reduce and verdict.failure is not None:
        yield from _made_smaller(job, verdict, verdict.failure)
    if answer.fault and verdict.failure is not None:
        finding = verdict.failure.finding
        told = replace(finding, message=f"{finding.message}; {answer.fault}")
        verdict.failure = replace(verdict.failure, finding=told)
        _save(job, verdict)
    if shared is not None and verdict.failure is not None:
        shared.keep(verdict, verdict.failure)
    if progress is not None:
        progress(verdict)
    return verdict


def reducing(
    job: Job,
    finding: Finding,
    tried: Case | Trace,
    *,
    progress: Callable[[int, Best], None] | None = None,
    seconds: float = inf,
) -> Plan[Smallest]:
    """Plan the reduction of a failing case or trace.

    ``progress`` gets the number of cases tried and the smallest failing one so far, with its finding.

    If the case ends its process, a smaller one must too, in at most 30 processes; otherwise a candidate
    that ends its process is skipped, at most 6 times. After ``seconds`` no further case is tried.
    """
    deaths = finding.ended
    late_at = time.monotonic() + seconds
    skipped: tuple[Case | Trace, ...] = ()
    steps = 0

    def seen(told: State) -> None:
        if progress is not None:
            progress(steps + int(told.get("steps", 0)), told.get("best") or (finding, tried))

    for _ in range(MOST_TRIES if deaths else MOST_SKIPPED):
        left = max(0.0, late_at - time.monotonic())
        asked = Reduction(
            job=job, check=finding.check, tried=tried, deaths=deaths, skipped=skipped, seconds=left
        )
        answer = yield Call("reduce", asked, job.limit, seen=seen)
        reached: Reduced = answer.result or Reduced(
            answer.told.get("steps", 0), answer.told.get("best"), None
        )
        steps += reached.steps
        if reached.best is not None:
            finding, tried = reached.best
        last = answer.told.get("tried")
        if not answer.is_lost or last is None or not is_smaller(last, tried):
            break
        if deaths and answer.told.get("other") is None:
            tried, finding = last, reached.lost or _death(answer)
        else:
            skipped = (*skipped, last)
        if time.monotonic() > late_at:
            break
    return Smallest(finding, tried, steps)


def _made_smaller(job: Job, verdict: Verdict, known: Failure) -> Plan[None]:
    """Plan the reduction of the failure of a search whose process is lost."""
    began, seconds = time.monotonic(), job.budget.shrink_seconds(verdict.seconds)
    ended = replace(known.finding, ended=True)
    smallest = yield from reducing(job, ended, known.tried, seconds=seconds)
    took = time.monotonic() - began
    smaller = failure_of(smallest.finding, smallest.tried, known.found_after)
    verdict.failure = replace(smaller, stopped=f"{seconds:.0f} s were up" if took >= seconds else "")
    verdict.spent["reducing"] = verdict.spent.get("reducing", 0.0) + took
    verdict.seconds += took
    _save(job, verdict)


def _fetched(job: Job, shared: Shared | None) -> tuple[Case | Trace, ...]:
    """Return the failures of a job's target that other machines found."""
    if shared is None or job.large or job.cases is not None:
        return job.shared
    return tuple(shared.fetched(job.operation, job.dialect, job.target, job.checks))


def _death(answer: Answer) -> Finding:
    """Return the finding of a process that died or lost its CUDA context."""
    because = answer.told.get("because")
    said = f"{answer.death}, {because}" if because else answer.death
    promises = answer.told.get("left_out_by", "")
    return Finding(answer.told.get("check", ""), said, RETURNS, ended=True, left_out_by=promises)


def _of_the_case_run(answer: Answer, job: Job) -> Plan[tuple[Finding, Case | Trace]]:
    """Plan to find the case that a process died of: the one last called on, if it ends another process too.

    A check may call the function on cases derived from its own. Raises ``ValueError`` if the process
    died before the first case.
    """
    if "tried" not in answer.told:
        raise ValueError(f"target = {job.target!r}, must be importable: {answer.death}")
    finding, tried = _death(answer), answer.told["tried"]
    other = answer.told.get("other")
    if other is None:
        return finding, tried
    known = answer.told["verdict"].checks
    checks = tuple(check for check in dict.fromkeys(("agrees", finding.check)) if check in known)
    alone = replace(job, cases=(other,), checks=checks, large=False, reduce=False, failures=None)
    second = yield Call("search", replace(alone, budget=Budget(examples=0)), job.limit)
    if second.death and second.told.get("other") is None and "tried" in second.told:
        return _death(second), second.told["tried"]
    return finding, tried


def _take(verdict: Verdict, now: Verdict, failure: Failure | None) -> None:
    """Overwrite a verdict with its current state."""
    for field in fields(Verdict):
        setattr(verdict, field.name, getattr(now, field.name))
    verdict.failure = failure


def _save(job: Job, verdict: Verdict) -> None:
    if job.failures is not None and verdict.failure is not None:
        verdict.failure = save_or_note(job.failures, verdict, verdict.failure)
