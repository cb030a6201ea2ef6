"""The child of ``apart``: one search or one reduction, each case noted before it runs."""

import sys
import traceback
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from cumae.oracle import Case, from_json, to_json
from cumae.properties.apart import RETURNS
from cumae.properties.batches.reducer import reduce_case
from cumae.properties.batches.seeded import large_case
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.conformance import binding_of, first_cases
from cumae.properties.examine import device_lost, finding_of
from cumae.properties.running.device import prepare
from cumae.properties.running.isolation import Json, Notes
from cumae.properties.search import Budget, search
from cumae.properties.targets import load_function
from cumae.properties.verdict import Finding, Verdict


def _child(notes: Notes) -> Json:
    """Do the job in this process and return its result."""
    job: dict[str, Any] = notes.job
    device = prepare(job["device"])
    import_module("triton.runtime.interpreter")  # a second or more, which is not the first case's
    binding = binding_of(load_function(job["target"]), job["operation"], job["dialect"])
    failures = None if job["failures"] is None else Path(job["failures"])
    if job["reducing"]:
        return _reduced(notes, Trial(binding, from_json(job["cases"][0]), device))
    if job["large"]:
        first = [large_case(0, binding.domain, binding.features)]
    elif job["cases"] is None:
        first = first_cases(binding, job["target"], failures, job["checks"] or CHECKS)
    else:
        first = [from_json(case) for case in job["cases"]]
    for case in first if job["cases"] is not None else ():
        if (reason := binding.why_not(case)) is not None:
            raise ValueError(f"case, must be within what {binding.name} promises: it varies {reason}")
    held: list[Verdict] = []

    def hold(verdict: Verdict) -> None:
        held[:] = [verdict]

    def before(check: str, case: Case) -> None:
        known = held[0]
        file = known.failure.file if known.failure is not None else None
        notes.write(
            case,
            check=check,
            cases=known.cases,
            comparisons=known.comparisons,
            not_promised=known.not_promised,
            seconds=known.seconds,
            shapes=known.shapes,
            checks=known.checks,
            file=None if file is None else str(file),
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
        reduce=job["reduce"],
        target=job["target"],
    )
    result = {field.name: getattr(verdict, field.name) for field in fields(Verdict)}
    if verdict.failure is not None:
        failure = verdict.failure
        result["failure"] = {
            "finding": asdict(failure.finding),
            "case": to_json(failure.case),
            "found_after": failure.found_after,
            "file": None if failure.file is None else str(failure.file),
        }
    return {**result, "lost": device_lost(device)}


def _reduced(notes: Notes, trial: Trial) -> Json:
    """Bring the case down; a candidate that ends the process is the parent's to judge."""
    (check,) = notes.job["checks"]
    skipped = {from_json(case) for case in notes.job["skipped"]}
    steps = 0
    best: Json | None = None

    def still_fails(case: Case) -> bool:
        nonlocal steps, best
        if case in skipped or trial.binding.why_not(case) is not None:
            return False
        steps += 1
        notes.write(case, check=check, steps=steps, best=best)
        finding = finding_of(check, Trial(trial.binding, case, trial.device))
        if device_lost(trial.device):
            raise _Lost(finding)
        if finding is None or notes.job["deaths"]:
            return False
        best = {"finding": asdict(finding), "case": to_json(case)}
        return True

    try:
        reduce_case(trial.case, still_fails)
    except _Lost as lost:
        return {"steps": steps, "best": best, "finding": asdict(lost.finding), "lost": True}
    return {"steps": steps, "best": best, "lost": False}


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
