"""Try the failure of a search in a process of its own, and find the calls before it that it needs there.

A function may keep something between calls, in its module or in a class. The smallest case then fails only
in the process that made the other calls, and a file of that case alone would replay as fixed.
"""

import time
from dataclasses import replace

from cumae.oracle import Case, Trace, leveled
from cumae.properties.cases.trace_reducer import reduce_trace
from cumae.properties.results.failure_file import kept, steps_of
from cumae.properties.results.verdict import Failure, Verdict, failure_of
from cumae.properties.search.database import shared_at
from cumae.properties.search.isolated import searchers
from cumae.properties.search.job import Best, Job, Reduction
from cumae.properties.search.process import Answer, Call
from cumae.properties.search.processes import Processes, asked

MOST_SECONDS = 20.0
TRACED = "forgets_history"
"""The check under which a trace of any function is judged."""
AGREES = "it agrees in a process of its own: what was called before matters, or chance"


def confirm(job: Job, verdict: Verdict) -> None:
    """Replace a failure that is none in a process of its own by a trace that is one there.

    The trace consists of cases that the search had tried and of the failing one, and is reduced and saved in
    its place. If there is none, the finding says that the case agrees there. A failure that ends its process
    was reduced in others, and one that a sanitizer found stays as it is.
    """
    known = verdict.failure
    if known is None or known.finding.ended or job.sanitizer:
        return
    began = time.monotonic()
    late_at = began + min(MOST_SECONDS, job.budget.shrink_seconds(verdict.seconds))
    job = replace(job, schedule=known.finding.schedule)
    try:
        with searchers(job.device, alone=True) as processes:
            alone = _run(processes, job, known.finding.check, known.tried)
            if alone.result is not None or alone.death:
                return
            best = _with_calls_before(processes, job, known, late_at)
    except (ValueError, RuntimeError) as error:  # what was found stays, whatever another process cannot do
        verdict.notes = (*verdict.notes, f"not tried in a process of its own: {error}")
        return
    if best is None:
        told = replace(known.finding, message=f"{known.finding.message}; {AGREES}")
        verdict.failure = replace(known, finding=told)
    else:
        called_with = known.finding.called_with
        verdict.failure = failure_of(replace(best[0], called_with=called_with), best[1], known.found_after)
    _save(job, verdict, known)
    took = time.monotonic() - began
    verdict.spent["reducing"] = verdict.spent.get("reducing", 0.0) + took
    verdict.seconds += took


def _run(processes: Processes, job: Job, check: str, tried: Case | Trace) -> Answer:
    """Return the answer of a process of its own that runs a case or trace; its result is what is found."""
    run = Reduction(job=job, check=check, tried=tried, deaths=False)
    return processes.run(asked(Call("run_once", run, job.limit)))


def _with_calls_before(processes: Processes, job: Job, known: Failure, late_at: float) -> Best | None:
    """Return the smallest trace found that fails in a process of its own, and its finding."""
    check = known.finding.check if known.trace is not None else TRACED
    best: Best | None = _run(processes, job, check, leveled((*known.before, *steps_of(known.tried)))).result

    def still_fails(trace: Trace) -> bool:
        nonlocal best
        if time.monotonic() > late_at:
            return False
        found: Best | None = _run(processes, job, check, trace).result
        best = found or best
        return found is not None

    if best is not None and isinstance(best[1], Trace):
        reduce_trace(best[1], still_fails)
    return best


def _save(job: Job, verdict: Verdict, known: Failure) -> None:
    """Save the failure of a verdict, and remove the file of the one that was known before it."""
    if job.failures is None or verdict.failure is None:
        return
    verdict.failure = kept(job.failures, verdict, verdict.failure)
    if known.file is not None and known.file != verdict.failure.file:
        known.file.unlink(missing_ok=True)
    if (shared := shared_at(job.database)) is not None:
        shared.keep(verdict, verdict.failure)
