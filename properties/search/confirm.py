"""Try the failure of a search in a process of its own, and find the calls before it that it needs there.

A function may keep something between calls, in its module or in a class. The smallest case then fails only
in the process that made the other calls, and a file of that case alone would replay as fixed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from cumae.oracle import Case, Trace, leveled
from cumae.properties.cases.reducer import reduce_case
from cumae.properties.cases.trace_reducer import reduce_trace
from cumae.properties.results.failure_file import save_or_note, steps_of
from cumae.properties.results.verdict import Failure, Verdict, failure_of
from cumae.properties.search.budget import SHRINK_SECONDS
from cumae.properties.search.database import shared_at
from cumae.properties.search.isolated import Smallest, searchers
from cumae.properties.search.job import Best, Job, Reduction
from cumae.properties.search.process import Answer, Call
from cumae.properties.search.processes import Processes, asked
from cumae.properties.search.profiles import LIMIT_SECONDS

MOST_SECONDS = 20.0
"""Time limit for finding and reducing the calls before a failure; `cumae reduce` has more."""
TRACED = "forgets_history"
"""The check under which a trace of any function is judged."""
AGREES = "it agrees in a process of its own: an earlier call matters, or chance does"
Show = Callable[[int, Best], None]


def confirm(job: Job, verdict: Verdict) -> None:
    """Try the failure in a process of its own; if it agrees there, replace it by a trace that fails there.

    The trace consists of cases that the search had tried and of the failing one, or is what failed first. It
    is reduced, and saved in place of the case. If no trace fails, the finding says that the case
    agrees in a process of its own. In both cases no promise is offered: what was called before matters. A
    failure that ended its process, that a sanitizer found, or that shows by chance, stays as it is.
    """
    known = verdict.failure
    if known is None or known.finding.ended or job.sanitizer or known.finding.check == "is_deterministic":
        return
    began = time.monotonic()
    seconds = min(MOST_SECONDS, job.budget.shrink_seconds(verdict.seconds))
    job = replace(job, schedule=known.finding.schedule)
    try:
        with searchers(job.device, alone=True) as processes:
            run = _Runs(processes, job, known.finding.check, began + seconds)
            if run.fails(known.tried):
                return
            if known.trace is None:
                run.check = TRACED
            called = leveled((*known.before, *steps_of(known.tried)))
            traces = (called, known.whole) if known.whole is not None else (called,)
            best = next((found for trace in traces if (found := run(trace).result) is not None), None)
            if best is not None:
                best = run.smallest(best)
    except (ValueError, RuntimeError) as error:  # what was found stays, whatever another process cannot do
        verdict.notes = (*verdict.notes, f"not tried in a process of its own: {error}")
        return
    if best is None:
        told = replace(known.finding, message=f"{known.finding.message}; {AGREES}", cause="", left_out_by="")
        verdict.failure = replace(known, finding=told)
    else:
        finding = replace(
            best[0], called_with=best[0].called_with or known.finding.called_with, left_out_by=""
        )
        stopped = f"{seconds:.0f} s were up" if run.is_late else ""
        verdict.failure = replace(failure_of(finding, best[1], known.found_after), stopped=stopped)
    _save(job, verdict, known)
    took = time.monotonic() - began
    verdict.spent["reducing"] = verdict.spent.get("reducing", 0.0) + took
    verdict.seconds += took


def reduced_alone(job: Job, known: Best, smallest: Smallest, show: Show) -> Smallest:
    """Return what is smallest if it fails in a process of its own, else what ``known`` is reduced to there.

    ``known``: what fails there. ``show`` gets the number of cases tried and the smallest failing one so far.
    """
    if smallest.tried is known[1] or smallest.finding.ended or job.sanitizer:
        return smallest
    with searchers(job.device, alone=True) as processes:
        run = _Runs(processes, job, known[0].check, time.monotonic() + SHRINK_SECONDS, show, smallest.steps)
        if run.fails(smallest.tried):
            return smallest
        finding, tried = run.smallest(known)
        return Smallest(finding, tried, run.steps)


@dataclass(slots=True)
class _Runs:
    """Runs cases and traces, each in a process of its own, and reduces them so until a point in time."""

    processes: Processes
    job: Job
    check: str
    late_at: float
    show: Show | None = None
    steps: int = 0

    def __call__(self, tried: Case | Trace) -> Answer:
        """Return the answer of one process; its result is what is found, None if nothing is."""
        self.steps += 1
        run = Reduction(job=self.job, check=self.check, tried=tried, deaths=False)
        return self.processes.run(asked(Call("run_once", run, min(self.job.limit, LIMIT_SECONDS))))

    def fails(self, tried: Case | Trace) -> bool:
        """Whether a case or trace fails, or ends its process."""
        answer = self(tried)
        return answer.result is not None or bool(answer.death)

    def smallest(self, best: Best) -> Best:
        """Return the smallest case or trace found that fails, and its finding."""

        def still_fails(candidate: Case | Trace) -> bool:
            nonlocal best
            found: Best | None = None if self.is_late else self(candidate).result
            best = found or best
            if self.show is not None:
                self.show(self.steps, best)
            return found is not None

        tried = best[1]
        if isinstance(tried, Trace):
            reduce_trace(tried, still_fails)
        else:
            reduce_case(tried, still_fails)
        return best

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.late_at


def _save(job: Job, verdict: Verdict, known: Failure) -> None:
    """Save the failure of a verdict, and remove the file of the one that was known before it."""
    if job.failures is None or verdict.failure is None:
        return
    verdict.failure = save_or_note(job.failures, verdict, verdict.failure)
    if known.file is not None and known.file != verdict.failure.file:
        known.file.unlink(missing_ok=True)
    if (shared := shared_at(job.database)) is not None:
        shared.keep(verdict, verdict.failure)
