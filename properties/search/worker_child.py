"""The child of ``apart``: one search or one reduction, each case noted before it runs."""

import sys
import time
import traceback
from dataclasses import asdict, fields, replace
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

from cumae.oracle import Case, Trace, tried_from_json, tried_to_json
from cumae.properties.cases.reducer import reduce_case, reduce_trace
from cumae.properties.cases.seeded import large_case
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.running.device import Device, prepare
from cumae.properties.running.integrity import tampering
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.isolation import Json, Notes
from cumae.properties.search.loop import search
from cumae.properties.search.one_check import device_lost, finding_of, of_the_case_run
from cumae.properties.search.trace_run import Run
from cumae.properties.search.worker import COUNTED, RETURNS


def _child(notes: Notes) -> Json:
    """Do the job in this process and return its result."""
    job: dict[str, Any] = notes.job
    tampering()  # the suite as it is before the function's module is imported
    device = prepare(job["device"])
    sys.path[:] = dict.fromkeys((*job["path"], *sys.path))
    import_module("triton.runtime.interpreter")  # a second or more, which is not the first case's
    binding = binding_of(load_function(job["target"]), job["operation"], job["dialect"])
    failures = None if job["failures"] is None else Path(job["failures"])
    if job["reducing"]:
        return _reduced(notes, binding, device, tried_from_json(job["cases"][0]))
    first: list[Case | Trace]
    if job["large"]:
        first = [large_case(0, binding.domain, binding.features)]
    elif job["cases"] is None:
        first = first_cases(binding, job["target"], failures, job["checks"] or CHECKS)
    else:
        first = [tried_from_json(case) for case in job["cases"]]
    asked = first if job["cases"] is not None else []
    for case in [step for one in asked for step in (one.steps if isinstance(one, Trace) else (one,))]:
        if (reason := binding.why_not(case)) is not None:
            raise ValueError(f"case, must be within what {binding.name} promises: it varies {reason}")
    held: list[Verdict] = []

    def hold(verdict: Verdict) -> None:
        held[:] = [verdict]

    def before(check: str, case: Case | Trace) -> None:
        known = held[0]
        file = known.failure.file if known.failure is not None else None
        notes.write(
            case,
            check=check,
            file=None if file is None else str(file),
            **{name: getattr(known, name) for name in COUNTED},
        )

    verdict = search(
        binding,
        device,
        Budget(**job["budget"]),
        checks=job["checks"],
        first=first,
        save_to=failures,
        progress=hold,
        before=before,
        begins=notes.running,
        reduce=job["reduce"],
        target=job["target"],
    )
    result = {field.name: getattr(verdict, field.name) for field in fields(Verdict)}
    if verdict.failure is not None:
        failure = verdict.failure
        result["failure"] = {
            "finding": asdict(failure.finding),
            "case": tried_to_json(failure.tried),
            "found_after": failure.found_after,
            "stopped": failure.stopped,
            "file": None if failure.file is None else str(failure.file),
        }
    return {**result, "lost": device_lost(device)}


def _reduced(notes: Notes, binding: Binding, device: Device, tried: Case | Trace) -> Json:
    """Bring the case or trace down; a candidate that ends the process is the parent's to judge."""
    (check,) = notes.job["checks"]
    skipped = {tried_from_json(case) for case in notes.job["skipped"]}
    steps = 0
    best: Json | None = None
    seconds = notes.job["budget"]["seconds"]
    late_at = inf if seconds is None else time.monotonic() + seconds

    def again(check: str, case: Case) -> Trial:
        notes.write(case, check=check, steps=steps, best=best)
        return Trial(binding, case, device, notes.running)

    def still_fails(candidate: Case | Trace) -> bool:
        nonlocal steps, best
        cases = candidate.steps if isinstance(candidate, Trace) else (candidate,)
        if candidate in skipped or any(binding.why_not(case) is not None for case in cases):
            return False
        if steps and time.monotonic() > late_at:
            raise _TimeIsUp
        steps += 1
        notes.write(candidate, check=check, steps=steps, best=best)
        if isinstance(candidate, Trace):
            run = Run(binding, device, check)
            finding = run.all(candidate)
            candidate = run.trace() if run.steps else candidate
        else:
            trial = Trial(binding, candidate, device, notes.running)
            finding = finding_of(check, trial)
            if finding is not None:
                finding, candidate = of_the_case_run(finding, trial, (check,), again)
        if device_lost(device):
            raise _Lost(finding)
        if finding is None or notes.job["deaths"]:
            return False
        best = {"finding": asdict(replace(finding, sanitizer=sanitizing())), "case": tried_to_json(candidate)}
        return True

    try:
        if isinstance(tried, Trace):
            reduce_trace(tried, still_fails)
        else:
            reduce_case(tried, still_fails)
    except _TimeIsUp:
        return {"steps": steps, "best": best, "lost": False}
    except _Lost as lost:
        return {"steps": steps, "best": best, "finding": asdict(lost.finding), "lost": True}
    return {"steps": steps, "best": best, "lost": False}


class _TimeIsUp(Exception):
    pass


class _Lost(Exception):
    def __init__(self, finding: Finding | None) -> None:
        self.finding = finding or Finding("", "the CUDA context is lost", RETURNS)


def main() -> None:
    """Do the job in the folder that is the argument, and write its result there."""
    notes = Notes(Path(sys.argv[1]))
    try:
        result = _child(notes)
    except ValueError as error:
        result = {"refused": str(error)}
    except Exception:
        result = {"error": traceback.format_exc()}
    notes.finish(result)


if __name__ == "__main__":
    main()
