"""Steps of traces, examined one after the other."""

from collections.abc import Callable
from math import inf

from cumae.oracle import Case, Trace
from cumae.properties.cases.shapes import shapes_of
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Disagreement, Stop
from cumae.properties.search.traces import TraceRun, traced_checks


def begin_trace(examiner: Examiner, check: str) -> Callable[[Case], None]:
    """Start a trace; return a function that runs its next step, and raises if it fails or time is up."""
    run = TraceRun(examiner.binding, examiner.device, check)
    so_far: Trace | None = None

    def run_step(case: Case) -> None:
        nonlocal so_far
        verdict = examiner.verdict
        if examiner.binding.why_not(case) is not None:
            verdict.not_promised += 1
            return
        if examiner.pace.is_late():
            raise Stop
        verdict.cases += 1
        verdict.comparisons += 1
        examiner.shapes.update(shapes_of(case, verdict.shows))
        examiner.last = case
        examiner.recent.note(case)
        if examiner.before is not None:
            so_far = so_far.then(case) if so_far is not None else Trace((case,))
            examiner.before(check, so_far)
        with examiner.pace.at_work(case):
            finding = run.step(case)
            if finding is not None:
                examiner.keeper.keep(finding, run.trace())
                raise Disagreement
        examiner.tell()

    return run_step


def examine_trace(examiner: Examiner, trace: Trace, late_at: float = inf) -> None:
    """Run a trace from its first step under every check of traces, until the clock shows ``late_at``."""
    for check in traced_checks(examiner.binding, examiner.checks):
        run_step = begin_trace(examiner, check)
        for case in trace.steps:
            if examiner.clock > late_at:
                return
            run_step(case)
