"""The child's side of ``isolated``: search and reduce, sending each case to the parent before it runs."""

from dataclasses import replace
from importlib import import_module
from itertools import islice
from operator import is_
from time import monotonic

import torch

from cumae.oracle import Case, Trace
from cumae.properties.cases.reducer import MOST_TRIES, reduce_case
from cumae.properties.cases.trace_reducer import boldest, reduce_trace
from cumae.properties.checks import Trial
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.expected import watch_definitions
from cumae.properties.results.failure_file import steps_of
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.running.device import Device, prepare
from cumae.properties.running.integrity import tampering
from cumae.properties.search.advice import Advice
from cumae.properties.search.child import NextStep, Tell
from cumae.properties.search.direct import search_directly
from cumae.properties.search.findings import device_lost, finding_of, of_the_case_run
from cumae.properties.search.job import RETURNS, Best, Job, Reduced, Reduction
from cumae.properties.search.traces import TraceRun

_ITS_OWN = (None, "", "")
"""A call on the case of the check, which differs in nothing."""


class Searcher:
    """The worker that searches and reduces in an isolated process; loads all libraries when made."""

    def __init__(self, tell: Tell, device: str) -> None:
        self._tell = tell
        self._device = prepare(device)
        tampering()  # records the suite before any function's module is imported
        import_module("triton.runtime.interpreter")  # takes seconds that the first case must not be charged
        torch.zeros(1, device=self._device)
        watch_definitions(lambda runs: tell(defining=runs))

    @property
    def is_lost(self) -> bool:
        """Whether a function has lost the CUDA context of this process."""
        return device_lost(self._device)

    def search(self, job: Job) -> Verdict:
        """Return the verdict of a search."""
        telling = _Telling(self._tell)
        verdict = search_directly(job, telling.hold, telling.before, telling.begins)
        if self._device == "cuda" and not self.is_lost:
            torch.cuda.empty_cache()  # another process may need the memory that large cases took
        return verdict

    def run_once(self, asked: Reduction) -> Best | None:
        """Run a case or trace once; return its finding, and the case or the steps that show it, if any."""
        return _Reducing(asked, self._device, _Telling(self._tell)).run_once()

    def reduce(self, asked: Reduction) -> Reduced:
        """Reduce a case or trace; the parent handles a candidate that ends the process."""
        return _Reducing(asked, self._device, _Telling(self._tell)).run()


class _Telling:
    """Sends the parent what has changed since the last message."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._verdict: Verdict | None = None
        self._failure: Failure | None = None
        self._tried: Case | Trace | None = None
        self._running: tuple[Case | None, str, str] = _ITS_OWN

    def hold(self, verdict: Verdict) -> None:
        """Keep the verdict, which grows."""
        self._verdict = verdict

    def before(self, check: str, tried: Case | Trace, **more: object) -> None:
        """Send the check that is about to run, its case or its trace so far, and the verdict."""
        news: dict[str, object] = {"check": check, **more}
        if self._verdict is not None:
            news["verdict"] = replace(self._verdict, failure=None)
            if self._verdict.failure is not self._failure:
                news["failure"] = self._failure = self._verdict.failure
        if tried is not self._tried:
            news["tried"] = _as_told_after(self._tried, tried)
            self._tried = tried
        if self._running != _ITS_OWN:
            self._running = _ITS_OWN
            news |= {"other": None, "because": "", "left_out_by": ""}
        self._tell(**news)

    def begins(self, other: Case | None, because: str, left_out_by: str) -> None:
        """Send the other case of the next call, None for the check's own, how it differs, and promises."""
        if (other, because, left_out_by) != self._running:
            self._running = (other, because, left_out_by)
            self._tell(other=other, because=because, left_out_by=left_out_by)


def _as_told_after(known: Case | Trace | None, tried: Case | Trace) -> Case | Trace | NextStep:
    """Return what the parent needs to know of a case or trace: of a trace that goes on, the new step."""
    if isinstance(known, Trace) and isinstance(tried, Trace):
        *before, last = tried.steps
        if len(before) == len(known.steps) and all(map(is_, before, known.steps)):
            return NextStep(last)
    return tried


class _Reducing:
    """A running reduction."""

    def __init__(self, asked: Reduction, device: Device, telling: _Telling) -> None:
        self._asked = asked
        self._binding: Binding = replace(asked.job, cases=None).bound()
        self._device = device
        self._telling = telling
        self._late_at = monotonic() + asked.seconds
        self._skipped = set(asked.skipped)
        self._steps = 0
        self._best: Best | None = None
        self._advice = Advice(self._binding)

    def run_once(self) -> Best | None:
        """Run what is to be reduced; return what is found."""
        return self._best if self._still_fails(self._asked.tried) else None

    def run(self) -> Reduced:
        """Try smaller candidates until none fails, the time is up or the CUDA context is lost."""
        tried, lost = self._asked.tried, None
        try:
            if self._asked.deaths:
                for candidate in islice(boldest(tried), MOST_TRIES):
                    self._still_fails(candidate)
            elif isinstance(tried, Trace):
                reduce_trace(tried, self._still_fails)
            else:
                reduce_case(tried, self._still_fails)
        except _TimeIsUp:
            pass
        except _Lost as error:
            lost = error.finding
        return Reduced(self._steps, self._best, lost)

    def _still_fails(self, candidate: Case | Trace) -> bool:
        promised = all(self._binding.why_not(case) is None for case in steps_of(candidate))
        if candidate in self._skipped or not promised:
            return False
        if self._steps and monotonic() > self._late_at:
            raise _TimeIsUp
        self._steps += 1
        self._told(self._asked.check, candidate)
        finding, shown = self._found(candidate)
        if device_lost(self._device):
            check = self._asked.check
            raise _Lost(finding or Finding(check, "the CUDA context is lost", RETURNS, ended=True))
        if finding is None or self._asked.deaths:
            return False
        self._advice.note(steps_of(shown)[-1], finding)
        self._best = self._advice.told(finding, shown), shown
        return True

    def _found(self, candidate: Case | Trace) -> tuple[Finding | None, Case | Trace]:
        """Return the check's finding on a candidate, and the case or trace that shows it."""
        if isinstance(candidate, Trace):
            run = TraceRun(self._binding, self._device, self._asked.check)
            finding = run.all(candidate)
            return finding, run.trace() if run.steps else candidate
        schedule = self._asked.job.schedule
        trial = Trial(self._binding, candidate, self._device, self._telling.begins, schedule=schedule)
        finding = finding_of(self._asked.check, trial)
        if finding is None:
            return None, candidate
        return of_the_case_run(finding, trial, (self._asked.check,), self._again)

    def _again(self, check: str, case: Case) -> Trial:
        self._told(check, case)
        return Trial(self._binding, case, self._device, self._telling.begins)

    def _told(self, check: str, tried: Case | Trace) -> None:
        self._telling.before(check, tried, steps=self._steps, best=self._best)


class _TimeIsUp(Exception):
    """Raised to stop trying candidates."""


class _Lost(Exception):
    """Raised if a candidate has lost the CUDA context."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
